"""Checks of data and signals, made by code; every finding has a severity and a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from quantgraph.data.source import EVENT_FIELDS

__all__ = ["Finding", "Report", "check_data", "check_signal", "signal_counts"]

Severity = Literal["error", "warning", "info"]
Panels = Mapping[str, Mapping[str, pd.DataFrame]]

MISSING_SHARE = 0.5
EXTREME_RETURN = 0.5
_PRICES = ("open", "high", "low", "close", "pre_close")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing found.

    ``error`` stops the run, ``warning`` may spoil its result, ``info`` is only told.
    """

    severity: Severity
    code: str
    message: str


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

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return {
            "validation_passed": self.passed,
            "checks_performed": list(self.checks),
            "issues_found": [asdict(finding) for finding in self.findings],
            "data_summary": dict(self.summary),
            "recommendations": [
                _ADVICE[code] for code in dict.fromkeys(f.code for f in self.findings) if code in _ADVICE
            ],
        }


_ADVICE = {
    "missing_field": "fetch the missing field, or write the strategy without it",
    "missing_symbol": "check the code and the window, or leave the symbol out",
    "many_gaps": "results of symbols with few bars rest on few trades",
    "extreme_return": "look for an ex-rights day or a wrong price before trusting the result",
    "misaligned": "build the signal from the index and the columns of the close frame",
    "no_trades": "the strategy never buys in this window: loosen the condition or widen the window",
    "not_reproducible": "seed every random generator and use nothing that differs between processes",
}


def check_data(
    panels: Panels,
    *,
    symbols: Sequence[str],
    sessions: pd.DatetimeIndex,
    indicators: Sequence[str] = (),
    expected_sessions: pd.DatetimeIndex | None = None,
) -> Report:
    """Check that what a request needs is there and is sane.

    Parameters
    ----------
    panels
        ``ohlcv`` and ``indicators``, wide frames (T sessions x N symbols, NaN = no trading).
    symbols, sessions, indicators
        What the request needs.
    expected_sessions
        The exchange's calendar for the window, if it is known.
    """
    ohlcv, basics = panels["ohlcv"], panels["indicators"]
    findings: list[Finding] = list(_missing(ohlcv, basics, symbols, indicators))
    if "close" in ohlcv:
        close = ohlcv["close"]
        findings += _gaps(close, symbols, sessions, expected_sessions)
        findings += _bad_prices(ohlcv)
        findings += _bad_order(ohlcv)
        findings += _extreme_returns(ohlcv)
        findings += _alignment(close, [("ohlcv", ohlcv), ("indicators", basics)])
    return Report(
        checks=("existence", "shape", "gaps", "prices", "returns", "alignment"),
        findings=tuple(findings),
        summary=_summary(panels),
    )


def _missing(
    ohlcv: Mapping[str, pd.DataFrame],
    basics: Mapping[str, pd.DataFrame],
    symbols: Sequence[str],
    indicators: Sequence[str],
) -> Iterator[Finding]:
    for panel, fields, wanted in (("ohlcv", ohlcv, ("open", "close")), ("indicators", basics, indicators)):
        for name in wanted:
            if name not in fields:
                yield Finding(
                    severity="error",
                    code="missing_field",
                    message=f"{panel} has no {name}; it has {_list(fields)}",
                )
    if "close" not in ohlcv:
        return
    close = ohlcv["close"]
    absent = [symbol for symbol in symbols if symbol not in close.columns]
    if absent:
        yield Finding(severity="error", code="missing_symbol", message=f"close has no {_list(absent)}")
    present = [symbol for symbol in symbols if symbol in close.columns]
    empty = [symbol for symbol in present if close[symbol].isna().all()]
    if empty:
        severity: Severity = "error" if len(empty) == len(present) else "warning"
        yield Finding(
            severity=severity, code="missing_symbol", message=f"{_list(empty)} has no bar in the window"
        )


def _gaps(
    close: pd.DataFrame,
    symbols: Sequence[str],
    sessions: pd.DatetimeIndex,
    expected: pd.DatetimeIndex | None,
) -> Iterator[Finding]:
    lost = sessions.difference(pd.DatetimeIndex(close.index))
    if len(lost):
        yield Finding(
            severity="error",
            code="missing_session",
            message=f"close lacks {len(lost)} of {len(sessions)} sessions, the first is {lost[0]:%Y-%m-%d}",
        )
    if expected is not None and len(holes := expected.difference(pd.DatetimeIndex(close.index))):
        yield Finding(
            severity="warning",
            code="calendar_gap",
            message=f"the exchange had {len(holes)} sessions that the data lacks, the first is "
            f"{holes[0]:%Y-%m-%d}",
        )
    share = close.reindex(columns=[s for s in symbols if s in close.columns]).isna().mean()
    thin = share[(share > MISSING_SHARE) & (share < 1)]
    if len(thin):
        yield Finding(
            severity="warning",
            code="many_gaps",
            message=f"{_list(thin.index)} has no bar on more than {MISSING_SHARE:.0%} of the sessions",
        )


def _bad_prices(ohlcv: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    for name in _PRICES:
        if name in ohlcv and (ohlcv[name] <= 0).to_numpy().any():
            yield Finding(
                severity="error",
                code="bad_price",
                message=f"{name} is {_first(ohlcv[name], ohlcv[name] <= 0)}; prices are above 0",
            )


def _bad_order(ohlcv: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """The high of a bar is not below any of its prices, nor the low above one."""
    if "high" not in ohlcv or "low" not in ohlcv:
        return
    for name in ("open", "close", "low"):
        if name in ohlcv and (wrong := ohlcv["high"] < ohlcv[name]).to_numpy().any():
            yield Finding(
                severity="error",
                code="bad_bar",
                message=f"high is {_first(ohlcv['high'], wrong)}, below {name}",
            )
    for name in ("open", "close"):
        if name in ohlcv and (wrong := ohlcv["low"] > ohlcv[name]).to_numpy().any():
            yield Finding(
                severity="error",
                code="bad_bar",
                message=f"low is {_first(ohlcv['low'], wrong)}, above {name}",
            )


def _extreme_returns(ohlcv: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    close = ohlcv["close"]
    before = ohlcv["pre_close"] if "pre_close" in ohlcv else _before(ohlcv)
    returns = close / before.where(before > 0) - 1
    wild = returns.abs() > EXTREME_RETURN
    if wild.to_numpy().any():
        yield Finding(
            severity="warning",
            code="extreme_return",
            message=f"{int(wild.to_numpy().sum())} returns are beyond {EXTREME_RETURN:.0%}, the first is "
            f"{_first(returns, wild)}",
        )


def _before(ohlcv: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Last close before, in the shares of the row."""
    before = ohlcv["close"].ffill().shift()
    return before / ohlcv["split"].reindex_like(before).fillna(1.0) if "split" in ohlcv else before


def _alignment(
    close: pd.DataFrame, panels: Sequence[tuple[str, Mapping[str, pd.DataFrame]]]
) -> Iterator[Finding]:
    for panel, fields in panels:
        for name, frame in fields.items():
            sparse = panel == "ohlcv" and name in EVENT_FIELDS and frame.index.isin(close.index).all()
            if not sparse and not frame.index.equals(close.index):
                yield Finding(
                    severity="warning",
                    code="misaligned",
                    message=f"{panel}[{name!r}] has {len(frame.index)} sessions, close {len(close.index)}",
                )


def check_signal(name: str, signal: pd.DataFrame, close: pd.DataFrame) -> Report:
    """Check a signal against the close frame it was made for.

    Its values are known to be 1, 0, -1 or NaN: the data state takes no others.
    """
    findings: list[Finding] = []
    strange = signal.columns.difference(close.columns)
    if len(strange):
        findings.append(
            Finding(
                severity="error",
                code="misaligned",
                message=f"{name} has columns that are no symbols: {_list(strange)}",
            )
        )
    outside = signal.index.difference(close.index)
    if len(outside):
        findings.append(
            Finding(
                severity="error",
                code="misaligned",
                message=f"{name} has {len(outside)} rows that are no sessions of the data, "
                f"the first is {outside[0]:%Y-%m-%d}",
            )
        )
    short = close.index.difference(signal.index)
    if len(short):
        findings.append(
            Finding(
                severity="error",
                code="misaligned",
                message=f"{name} lacks {len(short)} of {len(close.index)} sessions",
            )
        )
    counts = signal_counts(signal)
    if not counts["buy"]:
        findings.append(
            Finding(severity="warning", code="no_trades", message=f"{name} never buys in this window")
        )
    if counts["nan"] > MISSING_SHARE * signal.size:
        findings.append(
            Finding(
                severity="warning",
                code="many_gaps",
                message=f"{name} has no opinion on {counts['nan'] / signal.size:.0%} of the cells",
            )
        )
    return Report(
        checks=("existence", "values", "alignment", "distribution"),
        findings=tuple(findings),
        summary={"signal_fields": [name], **_extent(signal), "signal_counts": counts},
    )


def signal_counts(signal: pd.DataFrame) -> dict[str, int]:
    """How many cells buy, sell, keep, or have no opinion."""
    values = signal.to_numpy()
    return {
        "buy": int((values == 1).sum()),
        "sell": int((values == -1).sum()),
        "hold": int((values == 0).sum()),
        "nan": int(np.isnan(values).sum()),
    }


def _summary(panels: Panels) -> dict[str, Any]:
    listed = {
        "ohlcv_fields": list(panels["ohlcv"]),
        "indicator_fields": list(panels["indicators"]),
        "signal_fields": list(panels.get("signal", {})),
    }
    return {**listed, **(_extent(panels["ohlcv"]["close"]) if "close" in panels["ohlcv"] else {})}


def _extent(frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "date_range": f"{frame.index[0]:%Y-%m-%d} - {frame.index[-1]:%Y-%m-%d}",
        "session_count": len(frame.index),
        "stock_count": len(frame.columns),
        "total_data_points": int(frame.notna().to_numpy().sum()),
    }


def _first(frame: pd.DataFrame, where: pd.DataFrame) -> str:
    row, column = (int(i) for i in np.argwhere(where.to_numpy())[0])
    session, symbol = pd.DatetimeIndex(frame.index)[row], list(frame.columns)[column]
    return f"{frame.to_numpy()[row, column]:g} at ({session:%Y-%m-%d}, {symbol})"


def _list(names: Any, most: int = 5) -> str:
    known = [str(name) for name in names]
    return (
        ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "") or "nothing"
    )
