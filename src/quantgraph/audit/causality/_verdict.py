"""The verdict of the causality check: where the signal is proved, or what refutes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Note, html_lines, html_table, say, short_line
from quantgraph.audit._findings import Finding, Severity
from quantgraph.audit.causality._counterexample import Counterexample

Result = Literal["causal", "not_causal", "not_deterministic", "undecided"]
Method = Literal["walked", "sampled", "construction"]

MAX_FLIPPED_SHARE = 0.05
"""Share of the opinions that rounding may flip if sessions are sampled, or if no perturbation flips them.
Code that changes more opinions once a session is not the last one is not near a threshold."""

_MISS_PROBABILITY = 0.01


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """The result of :func:`.check_causality`.

    Attributes
    ----------
    result
        ``causal``; ``not_causal``; ``not_deterministic``: two runs on the same panel differ, so nothing is
        known of the future; ``undecided``: a planned test could not be made.
    sessions, proved
        Number of sessions, and of those at which the signal is the same without the future.
    method
        ``walked`` if every session was tried, ``sampled`` if some were; ``construction`` if the signal is
        built of parts that each look back only.
    random_cuts
        How many of the sampled sessions were drawn from all alike. The others are places where leaks show,
        and a leak may avoid them.
    isolated
        Whether all runs were in processes that held their own panel and nothing else. A function runs within
        reach of the whole panel.
    signal
        If causal, what trades (T sessions x N symbols, NaN for no opinion): the values that were computed in
        each session that was walked, with what was known then, and those of the whole panel in the others.
    alternative_futures
        How many alternative futures were tried, by kind.
    later_starts
        From how many later starts the strategy was run.
    counterexample
        A cell that the future changes, if not causal.
    future_error
        Error of the strategy on an alternative future, empty if it never failed.
    first_error
        The error that ended the first run, if there was one.
    warm_up
        Sessions after which the signal no longer depends on where the data begins (a mean of n sessions
        needs n); None if it depends on the whole history, or was not measured.
    lookback
        The declared warm-up.
    near_threshold
        Cells that differ by rounding only, between a panel and a longer one.
    flipped_share
        Share of the opinions that rounding flips: of all, or of those in the last rows of prefixes.
    seed
        Draws the same cuts and futures again; None if every session was walked.
    earlier_looks
        How often, at least, code had seen these rows on this machine before. It may have left what it saw,
        so only a first look is proved by order alone.
    """

    result: Result
    sessions: int
    proved: int
    method: Method
    random_cuts: int = 0
    isolated: bool = True
    signal: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    alternative_futures: Mapping[str, int] = field(default_factory=dict)
    later_starts: int = 0
    counterexample: Counterexample | None = None
    future_error: str = ""
    first_error: str = ""
    warm_up: int | None = None
    lookback: int | None = None
    near_threshold: int = 0
    flipped_share: float = 0.0
    seed: int | None = None
    earlier_looks: int = 0
    seconds: float = 0.0

    def __repr__(self) -> str:
        return "\n  ".join([f"Verdict({short_line(self.line)})", *map(short_line, self.notes)])

    def _repr_html_(self) -> str:
        tested = [(name.replace("_", " "), value) for name, value in self.coverage.items() if value]
        needs = [("warm up", self.warm_up)] if self.warm_up is not None else []
        return html_lines([self.line, *self.notes]) + html_table([*tested, *needs])

    @property
    def causal(self) -> bool:
        """True if every planned test was made and none showed the future in the signal."""
        return self.result == "causal"

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the reader, in English."""
        return tuple(str(note) for _, note in self._notes())

    def _notes(self) -> Iterator[tuple[Severity, Note]]:
        if self.near_threshold and self.causal:
            cells, share = self.near_threshold, f"{self.flipped_share:.2%}"
            zh, en = "；信号取逐日计算的值", "; the signal has the value that was computed in each session"
            if self.method == "sampled":
                zh, en = "；不计入判定", "; they do not count"
            yield (
                "warning" if self.flipped_share else "info",
                Note(
                    zh=f"有 {cells} 个格子紧贴阈值，舍入误差就会使其变化，其中观点翻转的占 {share}{zh}",
                    en=f"{cells} cells are so near a threshold that rounding changes them, {share} of the "
                    f"opinions flip{en}",
                ),
            )
        need = self.warm_up
        if self.lookback is not None and self.later_starts and (need is None or need > self.lookback):
            needed = f" {need} 个" if need else "全部历史"
            yield (
                "info",
                Note(
                    zh=f"声明的回看期 {self.lookback} 个交易日不够：信号需要{needed}",
                    en=f"the declared look-back of {self.lookback} sessions is too short: the signal needs "
                    f"{need or 'the whole history'}",
                ),
            )

    @property
    def residual(self) -> float:
        """Share of sessions at which a leak could show and still be missed with a probability of 1 %."""
        if not self.causal or self.proved == self.sessions:
            return 0.0
        return float(1 - _MISS_PROBABILITY ** (1 / self.random_cuts))

    @property
    def coverage(self) -> dict[str, Any]:
        """What was tested, as plain values."""
        return {
            "sessions": self.sessions,
            "proved": self.proved,
            "method": self.method,
            "random_cuts": self.random_cuts,
            "isolated": self.isolated,
            "alternative_futures": dict(self.alternative_futures),
            "later_starts": self.later_starts,
            "residual": round(self.residual, 6),
            "flipped_share": round(self.flipped_share, 6),
            "seed": self.seed,
            "earlier_looks": self.earlier_looks,
        }

    @property
    def line(self) -> str:
        """The verdict in one English line."""
        return self.text("en")

    def text(self, language: str) -> str:
        """Return the verdict in one line."""
        if self.causal:
            return "".join(note.text(language) for note in self._proof())
        why, name = self._why.text(language), _NAMES[self.result].text(language)
        return say(language, zh=f"{name}：{why}", en=f"{name}: {why}")

    def _proof(self) -> Iterator[Note]:
        part, whole = self.proved, self.sessions
        if self.method == "construction":
            yield Note(
                zh="无未来函数：由规则构造保证，每个部分只看过去",
                en="causal by construction: each part looks back only",
            )
        elif self.method == "walked":
            yield Note(
                zh=f"无未来函数{self._marks.zh}：全部 {whole} 个交易日均已证明",
                en=f"causal{self._marks.en}: proved at {part} of {whole} sessions",
            )
        else:
            yield Note(
                zh=f"无未来函数{self._marks.zh}：已在 {whole} 个交易日中的 {part} 个上证明",
                en=f"causal{self._marks.en}: proved at {part} of {whole} sessions",
            )
        if self.residual:
            yield Note(
                zh=f"；出现在不到 {self.residual:.0%} 的交易日上的泄漏可能漏检",
                en=f"; a leak that shows in fewer than {self.residual:.0%} of them could be missed",
            )
        if not self.isolated:
            yield Note(
                zh="；未隔离：运行时全部数据都在其可及范围",
                en="; not isolated: it ran within reach of all data",
            )

    @property
    def _marks(self) -> Note:
        """What makes a proof less than one of all sessions at the first look, in parentheses."""
        looks = self.earlier_looks
        marks = [Note(zh="抽样", en="sampled")] * (self.method == "sampled")
        marks += [Note(zh=f"再次查看，此前至少 {looks} 次", en=f"second look, {looks}")] * (looks > 0)
        if not marks:
            return Note(zh="", en="")
        zh, en = "；".join(mark.zh for mark in marks), "; ".join(mark.en for mark in marks)
        return Note(zh=f"（{zh}）", en=f" ({en})")

    @property
    def _why(self) -> Note:
        """Why it is not causal."""
        if self.counterexample is not None:
            return Note(zh=self.counterexample.message("zh"), en=self.counterexample.message("en"))
        if self.result == "not_deterministic":
            return Note(
                zh="同一段数据运行两次得到的信号不同；请固定所有随机种子",
                en="two runs on the same data give different signals; seed what is random",
            )
        error, share = self.future_error, f"{self.flipped_share:.1%}"
        if self.first_error:
            return Note(zh=f"逐日运行中断：{self.first_error}", en=f"the strategy fails: {self.first_error}")
        if error:
            return Note(
                zh=f"换成另一种可能的未来行情时策略报错（{error}）；只有在任何行情下都能运行才能证明",
                en=f"the strategy fails on prices that could have come ({error}); it has to run on any of "
                "them to be proved",
            )
        return Note(
            zh=f"舍入误差使 {share} 的观点翻转，超过 {MAX_FLIPPED_SHARE:.0%}："
            "无法与未来函数区分；请避免比较相等的数",
            en=f"rounding flips {share} of the opinions, more than {MAX_FLIPPED_SHARE:.0%}: that cannot be "
            "known from the future; do not compare numbers that are equal",
        )

    def findings(self, language: str = "en") -> tuple[Finding, ...]:
        """Return the verdict as findings of a report: an error unless it is causal, and the notes."""
        found = [
            Finding(severity=severity, code="causality", message=note.text(language))
            for severity, note in self._notes()
        ]
        if not self.causal:
            found.insert(
                0, Finding(severity="error", code=_CODES[self.result], message=self._why.text(language))
            )
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "causal": self.causal,
            "result": self.result,
            "line": self.line,
            "coverage": self.coverage,
            "future_error": self.future_error,
            "counterexample": self.counterexample.as_json() if self.counterexample else None,
            "warm_up": self.warm_up,
            "lookback": self.lookback,
            "near_threshold": self.near_threshold,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


_NAMES = {
    "not_causal": Note(zh="存在未来函数", en="not causal"),
    "not_deterministic": Note(zh="结果不确定", en="not deterministic"),
    "undecided": Note(zh="无法判定", en="undecided"),
}
_CODES = {
    "not_causal": "not_causal",
    "not_deterministic": "not_reproducible",
    "undecided": "causality_undecided",
}
