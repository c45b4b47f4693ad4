"""Findings of checks, and the report that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from quantgraph._util.texts import Note, html_lines, html_table, short_line, table_beside

_SHOWN = 20
"""Findings in a representation."""

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault or remark.

    Attributes
    ----------
    severity
        ``error`` stops the run, ``warning`` may spoil its result, ``info`` is for the reader.
    session, symbol
        First place (session ``YYYY-MM-DD``); None if it has no such place.
    count
        Number of bars, sessions or symbols, as the message says; None if they are not counted.
    zh
        The message in Chinese; None where the kind and the place say enough.
    detail
        What helps a model to mend it, such as a cell that fails.
    """

    severity: Severity
    code: str
    message: str
    session: str | None = None
    symbol: str | None = None
    count: int | None = None
    zh: str | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """The checks that were made and their findings; nodes and files carry :meth:`as_json`."""

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    summary: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        found = [
            f"  {each.severity} {each.code}: {short_line(each.message)}" for each in self.findings[:_SHOWN]
        ]
        more = [f"  and {len(self.findings) - _SHOWN} more"] if len(self.findings) > _SHOWN else []
        return "\n".join([f"Report({self._headline})", *found, *more])

    def _repr_html_(self) -> str:
        rows = [(each.severity, each.code, each.message) for each in self.findings[:_SHOWN]]
        more = [f"and {len(self.findings) - _SHOWN} more"] if len(self.findings) > _SHOWN else []
        return html_lines([self._headline]) + html_table(rows) + html_lines(more)

    @property
    def _headline(self) -> str:
        passed = "passed" if self.passed else "not passed"
        return f"{passed}: {len(self.checks)} checks, {len(self.findings)} findings"

    @property
    def passed(self) -> bool:
        """True if no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the run."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def with_findings(self, *more: Finding) -> Report:
        """Return the report with more findings; none can be removed."""
        return Report(checks=self.checks, findings=(*self.findings, *more), summary=self.summary)

    def joined(self, other: Report) -> Report:
        """Return both reports as one."""
        return Report(
            checks=(*self.checks, *other.checks),
            findings=(*self.findings, *other.findings),
            summary={**self.summary, **other.summary},
        )

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Report:
        """Read what :meth:`as_json` wrote."""
        return cls(
            checks=tuple(report["checks_performed"]),
            findings=tuple(Finding(**issue) for issue in report["issues_found"]),
            summary=report["data_summary"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values; a finding without a place or count has no such key."""
        return {
            "validation_passed": self.passed,
            "checks_performed": list(self.checks),
            "issues_found": [
                {key: value for key, value in asdict(finding).items() if value is not None}
                for finding in self.findings
            ],
            "data_summary": dict(self.summary),
            "recommendations": [
                _ADVICE[code] for code in dict.fromkeys(f.code for f in self.findings) if code in _ADVICE
            ],
        }


def issue_text(issue: Mapping[str, Any], language: str) -> str:
    """Return an issue of :meth:`Report.as_json` in a language; in Chinese at least its kind and place.

    >>> issue_text({"code": "symbol_gap", "message": "...", "symbol": "600000.SH", "count": 3}, "zh")
    '行情中断（600000.SH，共 3 处）'
    """
    title = _TITLES.get(issue["code"])
    if language != "zh" or "zh" in issue or title is None:
        return str(issue["zh"] if language == "zh" and "zh" in issue else issue["message"])
    place = " ".join(issue[key] for key in ("symbol", "session") if key in issue)
    parts = [place, f"共 {issue['count']} 处"] if "count" in issue else [place]
    detail = "，".join(filter(None, parts))
    return f"{title}（{detail}）" if detail else title


_OPEN = Note(zh="完成（有未解决的问题）", en="done, with an open finding")
_OWN = {
    "own_not_proved": Note(zh="完成（信号未经证明）", en="done, signal not proved"),
    "own_unsealed": Note(zh="完成（未密封）", en="done, unsealed"),
    "not_compared": Note(zh="完成（没有与句子比较）", en="done, not compared with the sentence"),
}
"""How a run is titled that traded a signal of the caller's."""


def first_lines(report: Mapping[str, Any], language: str) -> tuple[str, list[str]]:
    """Return what a person reads first of a traded signal, by its report: a title, and lines.

    They say that a signal of the caller's is not proved or not sealed, and where one may depart from the
    sentence. Without any both are empty.
    """
    issues = list(report.get("issues_found", ()))
    own = [issue for issue in issues if issue["code"] in _OWN]
    open_issues = [issue for issue in issues if issue["code"].startswith("meaning")]
    title = _OPEN if open_issues else _OWN[own[0]["code"]] if own else Note(zh="", en="")
    return title.text(language), [issue_text(issue, language) for issue in (*own, *open_issues)]


_ROWS = table_beside(__file__, "findings.csv")
_TITLES = {code: title for code, title, _ in _ROWS if title}
_ADVICE = {code: advice for code, _, advice in _ROWS if advice}
