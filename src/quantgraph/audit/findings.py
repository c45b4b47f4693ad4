"""What a check found, and the report that carries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Finding", "Report", "Severity"]

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing found.

    ``error`` stops the run, ``warning`` may spoil its result, ``info`` is only told.

    Attributes
    ----------
    session, symbol
        Where it is found first (``YYYY-MM-DD``), None where it has no such place.
    count
        How many bars, sessions or symbols it concerns, None where they are not counted; the message says
        which.
    """

    severity: Severity
    code: str
    message: str
    session: str | None = None
    symbol: str | None = None
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was checked and found; :meth:`as_json` is the form that nodes and files carry."""

    checks: tuple[str, ...]
    findings: tuple[Finding, ...]
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True unless something is an error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the run."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def with_findings(self, *more: Finding) -> Report:
        """The report with findings added; none can be taken away."""
        return Report(checks=self.checks, findings=(*self.findings, *more), summary=self.summary)

    def joined(self, other: Report) -> Report:
        """Both reports in one."""
        return Report(
            checks=(*self.checks, *other.checks),
            findings=(*self.findings, *other.findings),
            summary={**self.summary, **other.summary},
        )

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Report:
        """The report that :meth:`as_json` told of."""
        return cls(
            checks=tuple(told["checks_performed"]),
            findings=tuple(Finding(**issue) for issue in told["issues_found"]),
            summary=told["data_summary"],
        )

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; a finding without a place or a count has no key for it."""
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


_ADVICE = {
    "missing_field": "fetch the missing field, or write the strategy without it",
    "missing_symbol": "check the code and the window, or leave the symbol out",
    "calendar_gap": "fetch the lacking sessions: indicators count rows, and a row is not a day there",
    "no_session": "look for dates in another time zone or of another exchange",
    "thin_session": "fetch the session again: so many symbols are rarely suspended together",
    "symbol_gap": "fetch the lacking bars, or make sure that the symbol was suspended",
    "many_gaps": "results of symbols with few bars rest on few trades",
    "extreme_return": "look for an ex-rights day or a wrong price before trusting the result",
    "misaligned": "build the signal from the index and the columns of the close frame",
    "duplicate_session": "fetch the session again: its bars are those of another one",
    "shifted": "move the field to its own sessions: a row that comes early is a look into the future",
    "price_unit": "give prices in CNY per share",
    "volume_unit": "give vol in hands of 100 shares and amount in thousand CNY, or the volume cap is wrong",
    "indicator_unit": "give turnover in percent, shares in ten thousands, values in ten thousand CNY",
    "adjusted_prices": "use raw prices: adjusted to the end of the data they carry its later dividends",
    "vwap_outside": "look at the bar: its prices, vol and amount do not belong together",
    "no_actions": "add the dividends and splits: without them accounts are paid none",
    "pre_close_break": "look for a wrong close, a lacking session, or an action that the data does not have",
    "bad_factor": "fetch adj_factor again: adjusted prices jump where it does",
    "bad_limit": "fetch up_limit and down_limit again",
    "outside_limits": "look for a wrong price, or limits of another session",
    "stale_price": "leave the symbol out if its price was not made by trading",
    "repeated_bar": "fetch the bar again: it is the one before",
    "no_opinion": "take a longer window, or shorter averages",
    "no_trades": "the strategy never buys in this window: loosen the condition or widen the window",
    "not_reproducible": "seed every random generator and use nothing that differs between processes",
}
