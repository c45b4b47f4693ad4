"""What the causality gate says: proved where, or refuted by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from quantgraph._texts import Note, say
from quantgraph.audit.counterexample import Counterexample
from quantgraph.audit.report import Finding

__all__ = ["Method", "Result", "Verdict"]

Result = Literal["causal", "not_causal", "not_deterministic"]
Method = Literal["exhaustive", "aimed"]

_MISSED = 0.01


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of :func:`.check_causality`.

    Attributes
    ----------
    result
        ``causal``, ``not_causal``, or ``not_deterministic``: two runs on the same panel differ, so nothing
        can be said of the future.
    sessions, proved
        How many sessions there are, and at how many the signal was seen to be the same without the future.
    method
        ``exhaustive`` if every session was tried, ``aimed`` if those where a leak would show.
    corruptions
        How many other futures were tried, by kind.
    starts
        From how many later starts it was run.
    evaluations
        How often the strategy was run in all.
    counterexample
        If it is not causal.
    warm_up
        Sessions after which the signal no longer depends on where the data begins (a mean of n sessions
        needs n); None if it depends on the whole history, or was not measured.
    lookback
        The warm-up that was declared.
    near_threshold
        Cells that differ by rounding only: between a panel and a longer one, and not with another future.
    """

    result: Result
    sessions: int
    proved: int
    method: Method
    corruptions: Mapping[str, int] = field(default_factory=dict)
    starts: int = 0
    evaluations: int = 0
    counterexample: Counterexample | None = None
    warm_up: int | None = None
    lookback: int | None = None
    near_threshold: int = 0
    seconds: float = 0.0

    @property
    def causal(self) -> bool:
        """True if no test showed the future in the signal, and the tests could have."""
        return self.result == "causal"

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader has to know, in English."""
        return tuple(map(str, self._notes))

    @property
    def _notes(self) -> tuple[Note, ...]:
        notes: list[Note] = []
        if self.near_threshold:
            cells = self.near_threshold
            notes.append(
                Note(
                    zh=f"有 {cells} 个格子紧贴阈值，舍入误差就会使其翻转；不计入判定",
                    en=f"{cells} cells are so near a threshold that rounding turns them; they do not count",
                )
            )
        need = self.warm_up
        if self.lookback is not None and self.starts and (need is None or need > self.lookback):
            needed = f" {need} 个" if need else "全部历史"
            notes.append(
                Note(
                    zh=f"声明的回看期 {self.lookback} 个交易日不够：信号需要{needed}",
                    en=f"the declared look-back of {self.lookback} sessions is too short: the signal needs "
                    f"{need or 'the whole history'}",
                )
            )
        return tuple(notes)

    @property
    def residual(self) -> float:
        """Share of sessions at which a leak could show and still be missed.

        By chance with 1 % where sessions were aimed at; those that could not be proved where all were tried.
        """
        if not self.causal or self.proved == self.sessions:
            return 0.0
        if self.method == "exhaustive" or not self.proved:
            return 1 - self.proved / self.sessions
        return float(1 - _MISSED ** (1 / self.proved))

    @property
    def coverage(self) -> dict[str, Any]:
        """What was done, as plain values."""
        return {
            "sessions": self.sessions,
            "proved": self.proved,
            "method": self.method,
            "corruptions": dict(self.corruptions),
            "starts": self.starts,
            "evaluations": self.evaluations,
            "residual": round(self.residual, 6),
        }

    @property
    def line(self) -> str:
        """The verdict in one English line."""
        return self.text("en")

    def text(self, language: str) -> str:
        """The verdict in one line."""
        why = self._why(language)
        if self.result == "not_deterministic":
            return say(language, zh=f"结果不确定：{why}", en=f"not deterministic: {why}")
        if self.result == "not_causal":
            return say(language, zh=f"存在未来函数：{why}", en=f"not causal: {why}")
        where = f"已在 {self.sessions} 个交易日中的 {self.proved} 个上证明"
        if self.proved == self.sessions:
            where = f"全部 {self.sessions} 个交易日均已证明"
        text = say(
            language,
            zh=f"无未来函数：{where}",
            en=f"causal: proved at {self.proved} of {self.sessions} sessions",
        )
        if not self.residual:
            return text
        return text + say(
            language,
            zh=f"；随机出现在不到 {self.residual:.0%} 的交易日上的泄漏可能漏检",
            en=f"; a leak that shows at random in fewer than {self.residual:.0%} of them could be missed",
        )

    def _why(self, language: str) -> str:
        """Why it is not causal."""
        if self.counterexample is not None:
            return self.counterexample.message(language)
        return say(
            language,
            zh="同一段数据运行两次得到的信号不同；请固定所有随机种子",
            en="two runs on the same data give different signals; seed what is random",
        )

    def findings(self, language: str = "en") -> tuple[Finding, ...]:
        """The verdict as findings of a report: an error unless it is causal, and what is worth knowing."""
        found = [Finding(severity="info", code="causality", message=n.text(language)) for n in self._notes]
        if not self.causal:
            code = "not_causal" if self.result == "not_causal" else "not_reproducible"
            found.insert(0, Finding(severity="error", code=code, message=self._why(language)))
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return {
            "causal": self.causal,
            "result": self.result,
            "line": self.line,
            "coverage": self.coverage,
            "counterexample": self.counterexample.as_json() if self.counterexample else None,
            "warm_up": self.warm_up,
            "lookback": self.lookback,
            "near_threshold": self.near_threshold,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }
