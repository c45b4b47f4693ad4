"""A signal of the caller's as a run: a frame, a function or a file is read, computed and proved beforehand.

What is traded is then data of the run's folder. A run of it is resumed and replayed without the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import language_of, say
from quantgraph.audit.causality import (
    BuiltTrials,
    CodeTrials,
    FunctionTrials,
    LookLog,
    check_causality,
    rehearsal_panel,
    rehearse,
)
from quantgraph.data import AsOfSource, MarketDataSource
from quantgraph.errors import BadFrame, BadOption, BadWindow, NoSignal, NotCausal, UnknownSymbol
from quantgraph.market import Moment, session_of, sessions_between
from quantgraph.rules import Rule, trials_of
from quantgraph.runs._forms import OWN_NAME, OwnFrame, checked, held_while_true, ranked, score_name, with_form
from quantgraph.runs._outputs import StrategyFile, read_strategy
from quantgraph.runs._parameters import bind, call_text, file_parameters, with_hint
from quantgraph.runs._rule_signal import EARLIER, file_of, own_signal
from quantgraph.runs._specification import OwnSignal, RunSpec, open_for
from quantgraph.runs.verification._verification import signal_of_cells, strategy_data
from quantgraph.runtime import OpenResources, Resources, open_resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState, View
from quantgraph.state.frames import Made
from quantgraph.subgraphs.signal import words_in
from quantgraph.tools import read_window

Strategy = pd.DataFrame | Mapping[str, Any] | Callable[[Any], Any] | Path | str | Rule
"""A signal frame, frames by what they are (:class:`.OwnFrame`), a function ``panels -> either``, a file like
a run's ``strategy.py``, or a rule."""

_EARLIER = (250, 500, 1000)
"""Sessions before the window over which the need of a row is measured, until one shows it."""


def with_own_signal(
    spec: RunSpec, strategy: Strategy, resources: Resources, params: Mapping[str, Any] | None = None
) -> RunSpec:
    """Return the specification of the run that trades ``strategy``; nothing is written yet.

    Raises if the strategy cannot be read or run, if its signal does not fit the prices, and ``NotCausal`` if
    its code uses the future, or was not proved not to.
    """
    if isinstance(strategy, str):
        strategy = Path(strategy)
    if not (isinstance(strategy, pd.DataFrame | Mapping | Path | Rule) or callable(strategy)):
        raise BadOption(
            f"strategy must be a frame, a function or the path of a file, not {strategy!r:.60}",
            parameter="strategy",
        )
    if resources.decider is not None and not resources.decider.uses_signal:
        raise BadOption(f"decider {resources.decider.name} trades no signal: pass it without a strategy")
    settings = resources.settings or load_settings()
    if isinstance(strategy, pd.DataFrame | Mapping):
        own = OwnFrame.of(strategy)
        codes = spec.symbols or tuple(map(str, own.frame.columns))
        market = open_for(replace(spec, symbols=codes), resources.source, settings)
        return _of_frame(spec, own, market)
    market = open_for(spec, resources.source, settings)
    opened = open_resources(replace(resources, settings=settings, source=market, ledger=None, recorder=None))
    if isinstance(strategy, Rule):
        return _of_rule(spec, strategy, opened)
    if isinstance(strategy, Path):
        return _of_code(spec, _Code.of_file(strategy, spec), opened)
    return _of_code(spec, _Code.of_function(strategy, params or {}), opened)


@dataclass(frozen=True, kw_only=True)
class _Code:
    """The code of a signal; ``words`` may name its symbols and dates."""

    file: StrategyFile
    origin: str
    function: Callable[[Any], Any] | None = None
    words: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: Path, spec: RunSpec) -> _Code:
        file = read_strategy(path)
        params = file_parameters(file.cells[0]) if file.cells else {}
        origin = call_text(path.name, params)
        return cls(file=file, origin=origin, words=spec.question or file.about, params=params)

    @classmethod
    def of_function(cls, function: Callable[..., Any], params: Mapping[str, Any]) -> _Code:
        base, call, known = bind(function, params)
        origin = call_text(getattr(base, "__name__", type(base).__name__), known)
        file = StrategyFile(about="", cells=FunctionTrials(base).cells, name=OWN_NAME)
        return cls(file=file, origin=origin, function=lambda data: held_while_true(call(data)), params=known)

    def trials_on(self, view: View, opened: OpenResources) -> BuiltTrials | CodeTrials | FunctionTrials:
        """The trials of its signal, whose name is found on invented rows."""
        return self.made_on(view, opened)[0]

    def made_on(
        self, view: View, opened: OpenResources
    ) -> tuple[BuiltTrials | CodeTrials | FunctionTrials, Made, str]:
        """The trials, the panel of what they make, and its name."""
        panel = rehearsal_panel(view.frozen())
        if self.function is not None:
            trials = FunctionTrials(self.function)
            outcome = trials.whole(panel)
            if outcome.error:
                there = ", ".join(view["ohlcv"])
                said = f"{self.origin} gave no signal: {outcome.error}; the bars have {there}"
                raise NoSignal(with_hint(said))
            return trials, outcome.panel, outcome.name or OWN_NAME
        made, name, _ = signal_of_cells(self.file, opened.runner, panel, self.origin)
        prove = opened.settings.audit.prove
        return trials_of(opened.runner, self.file.cells, name, prove=prove), made, name


def _of_frame(spec: RunSpec, made: OwnFrame, market: MarketDataSource) -> RunSpec:
    frame = made.frame
    if frame.isna().to_numpy().all():
        raise BadFrame(f"the {made.panel} is NaN in all of its cells; mark at least one with a number")
    listed = set(market.symbols())
    unknown = [str(code) for code in frame.columns if code not in listed]
    if unknown:
        raise UnknownSymbol(
            f"{market.name} has no prices of {', '.join(unknown[:5])}, which the {made.panel} has",
            symbols=tuple(unknown),
        )
    codes = ",".join(map(str, frame.columns))
    first, last = (spec.start or f"{frame.index[0]:%Y%m%d}", spec.end or f"{frame.index[-1]:%Y%m%d}")
    _, sessions = _window(market, codes, first, last)
    outside = frame.loc[session_of(first) : session_of(last)].index.difference(sessions)
    if len(outside):
        raise BadFrame(
            f"the {made.panel} has {len(outside)} rows that are not sessions of {market.name}, the first is "
            f"{outside[0]:%Y-%m-%d}"
        )
    own = OwnSignal(kind="frame", name=made.name, panel=made.panel, bottom=made.bottom, code_hash="", ref="")
    closes = None
    if made.panel == "score":
        known = AsOfSource(market, Moment(market.sessions()[-1]))
        closes = known.bars(tuple(map(str, frame.columns)), sessions[0], sessions[-1])["close"]
    return _with(spec, own, frame, sessions, closes=closes)


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The symbols and the window of code: the caller's, else the sentence's, else all of the source."""

    market: MarketDataSource
    symbols: tuple[str, ...]
    indices: tuple[str, ...]
    start: str
    end: str
    listed: tuple[str, ...]
    sessions: pd.DatetimeIndex
    trade: tuple[str, ...]

    @classmethod
    def of(cls, spec: RunSpec, words: str, market: MarketDataSource) -> _Request:
        read, span = words_in(words, market).read if words else None, market.sessions()
        found = (read.trade, read.watch) if read else ((), ())
        trade, watch = (tuple(each for each in codes if each != "ALL") for codes in found)
        start = spec.start or (read and read.start) or f"{span[0]:%Y%m%d}"
        end = spec.end or (read and read.end) or f"{span[-1]:%Y%m%d}"
        indices = tuple(each for each in watch if each not in {*market.symbols(), *trade})
        named = dict.fromkeys(each for each in (*trade, *watch) if each not in indices)
        symbols = spec.symbols or tuple(named)
        listed, sessions = _window(market, ",".join(symbols) or "ALL", start, end)
        return cls(
            market=market,
            symbols=symbols,
            indices=indices,
            start=start,
            end=end,
            listed=listed,
            sessions=sessions,
            trade=spec.symbols or trade,
        )

    @property
    def before(self) -> pd.DatetimeIndex:
        """Sessions before the window."""
        span = self.market.sessions()
        return span[span < self.sessions[0]]

    def view(self, file: StrategyFile, before: int) -> View:
        """All that is known of the data."""
        return self.store(file, before).view(Moment(self.market.sessions()[-1]))

    def store(self, file: StrategyFile, before: int) -> DataState:
        """The data of the window and of at most so many sessions before it."""
        first = (self.before[-before:] if before else self.before[:0]).append(self.sessions)[0]
        names = {"symbols": self.listed, "indices": self.indices}
        return strategy_data(file, self.market, start=f"{first:%Y%m%d}", end=self.end, **names)


def _of_code(spec: RunSpec, code: _Code, opened: OpenResources) -> RunSpec:
    request = _Request.of(spec, code.words, opened.source)
    need = _need(code, request, opened)
    view = request.view(code.file, _EARLIER[0] if need is None else need - 1)
    (trials, panel, name), audit = code.made_on(view, opened), opened.settings.audit
    verdict = check_causality(
        trials,
        view.frozen(),
        prove=audit.prove,
        cuts=audit.cuts,
        seed=audit.seed,
        reads=rehearse(trials, view.frozen()).reads,
        looks=LookLog(opened.settings.cache_dir, start=request.sessions[0]),
        warm_up=False,
    )
    language = language_of(spec.question or code.words)
    if not verdict.causal or verdict.signal is None:
        message = verdict.findings(language)[0].message
        raise NotCausal(f"{code.origin}: {message}", verdict=verdict.as_json())
    first, cells = pd.DatetimeIndex(view["ohlcv"]["close"].index)[0], code.file.cells
    own = OwnSignal(
        kind="file" if code.function is None else "function",
        name=name,
        panel=panel,
        origin=code.origin,
        params=code.params,
        cells=cells,
        code_hash=content_hash("\n# cell\n".join(cells)) if cells else "",
        ref="",
        said=code.function is None and panel == "signal" and bool(spec.question),
        proof={**verdict.as_json(), "text": verdict.text(language), "warm_up": need, "seconds": 0.0},
        warm_up=need,
        data_start=f"{first:%Y%m%d}" if first < request.sessions[0] else None,
    )
    whole = checked(panel, name, verdict.signal)
    # An index stays one, so that its levels are compared, if all of its members have a column.
    symbols = request.trade if set(request.listed) == set(whole.columns) else ()
    spec = replace(spec, symbols=symbols, start=request.start, end=request.end)
    closes = view["ohlcv"]["close"]
    return _with(spec, own, whole, request.sessions, about=code.file.about, closes=closes)


def _of_rule(spec: RunSpec, rule: Rule, opened: OpenResources) -> RunSpec:
    codes = (*spec.symbols, *rule.watched) if spec.symbols else ()
    request = _Request.of(replace(spec, symbols=codes), "", opened.source)
    request = replace(request, indices=rule.indices)
    store = request.store(file_of(rule), max(rule.lookback, EARLIER))
    traded, _ = _window(opened.source, ",".join(spec.symbols) or "ALL", request.start, request.end)
    spec = replace(spec, start=request.start, end=request.end)
    own, signal = own_signal(rule, traded, store, opened, spec)
    return _with(spec, own, signal.reindex(columns=list(traded)), request.sessions)


def _need(code: _Code, request: _Request, opened: OpenResources) -> int | None:
    """The sessions that a row of the signal needs, measured over more and more of them; None if unknown."""
    need, there = None, len(request.before)
    for count, less in zip(_EARLIER, (-1, *_EARLIER), strict=False):
        if need is None and less < there:
            view = request.view(code.file, count)
            need = rehearse(code.trials_on(view, opened), view.frozen(), warm_up=True).warm_up
    return need


def _window(
    market: MarketDataSource, codes: str, start: str, end: str
) -> tuple[tuple[str, ...], pd.DatetimeIndex]:
    """The symbols of a window, as its run resolves them, and its sessions."""
    known = AsOfSource(market, Moment(market.sessions()[-1]))
    _, first, last, _ = read_window(market, known.moment, codes, start, end)
    symbols = read_window(known, Moment.at(f"{last:%Y%m%d}"), codes, start, f"{last:%Y%m%d}")[0].symbols
    return symbols, sessions_between(known.sessions_of(symbols), first, last)


def _with(
    spec: RunSpec,
    own: OwnSignal,
    frame: pd.DataFrame,
    sessions: pd.DatetimeIndex,
    *,
    about: str = "",
    closes: pd.DataFrame | None = None,
) -> RunSpec:
    """The specification with the signal on the window's sessions: a row that it lacks has no opinion.

    ``closes`` say which symbols a row of scores ranks.
    """
    plan, score = with_form(spec.plan, own.panel, own.name), None
    if own.panel == "score" and closes is not None and plan is not None:
        score = frame.reindex(index=sessions)
        frame = ranked(score, closes, plan, own.bottom)
    signal = frame.reindex(index=sessions, columns=sorted(frame.columns))
    if signal.empty or signal.isna().to_numpy().all():
        raise BadWindow(f"the signal has no opinion from {sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}")
    frames = {own.name: signal} | ({} if score is None else {score_name(own.name): score})
    ref = _kept(frames, DataState())
    own = replace(own, ref=ref, code_hash=own.code_hash or ref, frames=frames)
    return replace(
        spec,
        plan=plan,
        question=spec.question if own.said else _title(own, spec.question or about),
        symbols=spec.symbols or tuple(map(str, signal.columns)),
        start=spec.start or f"{sessions[0]:%Y%m%d}",
        end=spec.end or f"{sessions[-1]:%Y%m%d}",
        own=own,
    )


_FORM_WORDS = {
    "signal": ("信号", "signal"),
    "weights": ("权重", "weights"),
    "entries": ("进出场信号", "entries and exits"),
    "score": ("打分", "scores"),
}


def _title(own: OwnSignal, about: str) -> str:
    """The name of a run. It begins with the signal's owner unless the signal is compared with a sentence."""
    language = language_of(about)
    zh, en = _FORM_WORDS[own.panel if own.name == OWN_NAME else "entries"]
    what = {
        "frame": say(language, zh=f"自有{zh}（未经证明）", en=f"own {en} (not proved)"),
        "function": say(
            language, zh=f"自有函数 {own.origin}（未密封）", en=f"own function {own.origin} (unsealed)"
        ),
        "file": say(language, zh=f"自有代码 {own.origin}", en=f"own code {own.origin}"),
        "rule": say(language, zh="规则", en="rule"),
    }[own.kind]
    return what + (say(language, zh="：", en=": ") + about if about else "")


def keep_own_signal(own: OwnSignal, folder: Path) -> None:
    """Write the signal into the data of a run's folder."""
    if own.frames is None:
        raise BadOption(f"the signal of {own.origin or 'a frame'} is in another run; give strategy= again")
    _kept(own.frames, DataState(folder / "data"))


def _kept(frames: Mapping[str, pd.DataFrame], store: DataState) -> str:
    """Commit what is traded without the bars that a commit's own signals are held against."""
    return store.update("indicators", frames, base=store.empty)
