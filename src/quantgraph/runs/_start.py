"""Starting a run: ``run_strategy``, ``run_signal``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.files import check_sentence, check_text, new_run_id
from quantgraph._util.texts import language_of
from quantgraph.agents import as_decider, decider_place
from quantgraph.broker import Account, Decider, ModelDecider, TradePlan
from quantgraph.data import FrameSource, SourceLike
from quantgraph.data.symbols import rules_of, symbol_list
from quantgraph.errors import BadOption
from quantgraph.llm import Model
from quantgraph.market import Rulebook
from quantgraph.runs._execute import OpenRun, check_resources, execute_run, notebook_watch, opened_run
from quantgraph.runs._forms import with_words
from quantgraph.runs._identity import identity_of
from quantgraph.runs._outputs import initial_result, write_result
from quantgraph.runs._own import Strategy, keep_own_signal, with_own_signal
from quantgraph.runs._result import RunResult
from quantgraph.runs._specification import OnClarifyMode, RunSpec, open_for, source_json
from quantgraph.runs._split import first_part, second_part
from quantgraph.runs.folder._folder import (
    Manifest,
    ledger_location,
    library_versions,
    lock_folder,
    staged_run_folder,
)
from quantgraph.runtime import Resources, merge_resources
from quantgraph.settings import load_settings


def run_strategy(
    question: str | RunSpec | Callable[[Any], Any] | Path = "",
    *,
    strategy: Strategy | None = None,
    params: Mapping[str, Any] | None = None,
    symbols: str | Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    split: str | None = None,
    source: SourceLike | None = None,
    decider: Decider | str | None = None,
    cash: Decimal | float | str | None = None,
    model: Model | None = None,
    plan: TradePlan | None = None,
    rules: Rulebook | None = None,
    out: str | Path | None = None,
    resources: Resources | None = None,
) -> RunResult:
    """Run a sentence and write strategy, signal, ledger, data and result into ``out/run_id``.

    From its first moment the folder says what the run is (``run.json``) and how it stands (``result.json``,
    whose ``state`` begins as ``running``): :func:`resume_run` can continue it whenever and however it was
    stopped.

    Parameters
    ----------
    question
        The sentence, or the whole specification of the run, which also has the market's rules, and whether
        to trade, to ask for approval, and to ask at all; or ``strategy``, without a sentence.
    strategy
        Your own in place of one that a model codes, without a model and a key: a function of frames by panel
        and field that returns a signal, proved and run with your rights; or the path of a file like a run's
        ``strategy.py``, sealed and proved, whose signal is compared with ``question``, if there is one. For a
        frame see :func:`run_signal`.
    params
        Parameters of the function by name: finite numbers, texts, booleans, dates; those of a
        ``functools.partial`` and plain defaults are as good. Those of a file are the names in capitals that
        its first cell begins with. They are in title, result, identity and comparison.
    symbols, start, end, split, cash, plan, rules
        See :class:`RunSpec`, which has them if ``question`` is one.
    source, decider, model
        See :class:`~quantgraph.runtime.Resources`. A decider may be its name, see
        :func:`~quantgraph.agents.make_decider`.
    out
        Parent of the run's folder. Default: ``runs_dir`` of the settings.
    resources
        The live objects of the run: settings, such as ``load_settings(budget="calls=100")``, ledger,
        checkpointer, who answers, what watches (in a notebook, if nothing else: a line) and what stops it.

    Returns
    -------
    RunResult
        The content of ``result.json``. ``ended_because`` is ``done`` or another of
        :data:`~quantgraph.runtime.endings.EndedBecause`; then ``error`` is one line with the reason.
        ``usage`` has a row of model calls, tokens and cost for each role, model and session, with
        ``unknown`` or None where a server did not report them.

    Raises
    ------
    BadOption
        If an argument is not valid; nothing is written then.
    NotCausal
        If ``strategy`` uses the future or was not proved not to; nothing is written then.
    StorageUnavailable
        If a file or database of the run cannot be written or read, such as on a full disk.
    Exception
        From the caller's code, as it is raised, and a ``QuantGraphError`` for a wrong return value.
        ``result.json`` says ``failed`` then, and the run can be resumed after the repair; the ``data`` of a
        ``QuantGraphError`` has ``run_id`` and ``run_dir``.
    """
    if callable(question) or isinstance(question, Path):
        question, strategy = "", strategy or question
    resources = merge_resources(resources, source=source, decider=as_decider(decider), model=model)
    dates = {"start": start, "end": end, "split": split}
    options = {"symbols": symbol_list(symbols), **dates, "cash": cash, "plan": plan, "rules": rules}
    spec, folder, resources = prepare_run(
        question, resources, options, out=out, strategy=strategy, params=params
    )
    resources = replace(resources, watch=resources.watch or notebook_watch(spec.question))
    if spec.split and spec.own is None and (resources.decider is None or resources.decider.uses_signal):
        market = open_for(spec, resources.source, resources.settings or load_settings())
        made = start_run(*first_part(spec, folder, resources, market))
        if made["ended_because"] != "done":
            return made
        spec, code = second_part(spec, made)
        spec = with_own_signal(spec, code, resources, None)
    with _begun_run(spec, folder, resources) as (manifest, opened):
        result = execute_run(manifest, folder, opened, task=manifest.graph_input, thread=manifest.run_id)
    return RunResult(result, resources.ledger_place)


def run_signal(
    signal: pd.DataFrame | None = None,
    *,
    entries: pd.DataFrame | None = None,
    exits: pd.DataFrame | None = None,
    weights: pd.DataFrame | None = None,
    score: pd.DataFrame | None = None,
    size: pd.DataFrame | Mapping[str, Any] | str | None = None,
    top: int | None = None,
    bottom: int | None = None,
    every: str | int | None = None,
    band: Decimal | float | str | None = None,
    prices: SourceLike | None = None,
    about: str = "",
    **options: Any,
) -> RunResult:
    """Trade a signal, target weights or scores of your own, as a run that says first that nothing proves it.

    One of ``signal``, ``entries`` with ``exits``, ``weights`` and ``score``, frames of sessions x symbols,
    which are the run's. What a row says is traded at the next open.

    Parameters
    ----------
    signal
        1 buys, -1 sells, 0 and NaN change nothing; or booleans, of which True is 1 and False is -1.
    entries, exits
        Booleans: buy and sell; where both are True it sells.
    weights
        Fractions of the equity that are held after the open: 0 sells, NaN leaves the holding alone. A row
        adds up to 1 or less, which leaves cash. Each trade's amount includes its fees; lots go to the largest
        remainders; sales come first, and a note tells what could not be bought.
    score
        Numbers to rank by, of the symbols with a close on the row's session, equal ones by code.
    size
        Beside ``entries`` a frame with the fraction of the equity of each; else as in
        :class:`~quantgraph.broker.TradePlan`.
    top, bottom
        Of ``score``: so many of the highest are held (``max_positions``, at most 10 by default). Others are
        sold; with ``bottom`` only when among so many of the lowest.
    every
        When ``weights`` or ``score`` are looked at (``trade_on``): every session by default.
    band
        How far a weight may drift before it is traded.
    prices
        See ``source`` of :class:`~quantgraph.runtime.Resources`; a frame or frames of bars, too.
    about
        The run's title, Chinese or English, which is the language that it answers in.
    **options
        Others of :func:`run_strategy`, such as ``plan``.

    Raises
    ------
    BadFrame
        If it has other values, is NaN throughout, or has a row that is not a session of the prices.
    BadOption
        If none or several are given, or a word of the plan contradicts them.
    UnknownSymbol
        If a symbol has no prices.
    """
    sizes = size if isinstance(size, pd.DataFrame) else None
    size = None if sizes is not None else size
    strategy: dict[str, Any] = {
        "signal": signal,
        "entries": entries,
        "exits": exits,
        "weights": weights,
        "score": score,
    }
    strategy |= {"size": sizes, "bottom": bottom}
    if top is not None and score is None:
        raise BadOption("top= is of a score; max_positions= of the plan limits positions", parameter="top")
    if size is not None and weights is not None:
        raise BadOption("size= beside weights=, which say it; leave it out", parameter="size")
    size = size if weights is None else "weights"
    words = {"size": size, "max_positions": top, "trade_on": every, "band": band}
    plan = with_words(options.pop("plan", None), words)
    return run_strategy(about, strategy=strategy, source=prices, plan=plan, **options)


def prepare_run(
    question: str | RunSpec,
    resources: Resources,
    options: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    strategy: Strategy | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[RunSpec, Path, Resources]:
    """Check what a run is begun with, and return what :func:`start_run` takes; nothing is written yet.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """
    check_resources(resources)
    wanted = {name: value for name, value in (options or {}).items() if value not in (None, "", ())}
    spec = _specification(question, wanted, resources)
    _check_texts(spec, source=resources.source, model=resources.model, out=out, ledger=resources.ledger_place)
    settings = resources.settings or load_settings()
    if params and not callable(strategy):
        fault = "params= are of a function; those of a file are the names in capitals at its top"
        raise BadOption(fault, parameter="params")
    if strategy is not None:
        spec = with_own_signal(spec, strategy, resources, params)
    return spec, Path(out or settings.runs_dir) / new_run_id(), replace(resources, settings=settings)


def _specification(question: str | RunSpec, options: Mapping[str, Any], resources: Resources) -> RunSpec:
    """Return the specification, with how questions are answered by the resources."""
    if isinstance(question, RunSpec):
        for name in options:
            raise BadOption(f"{name}= and a RunSpec are both set; put it in the RunSpec", parameter=name)
        spec = question
    else:
        check_sentence(question, "question")
        cash = {"cash": Account.opening(options["cash"]).cash} if "cash" in options else {}
        spec = RunSpec(question=question, **{**options, **cash})
    on_clarify: OnClarifyMode = spec.on_clarify
    if resources.on_clarify is not None:
        on_clarify = "function" if callable(resources.on_clarify) else resources.on_clarify
    elif resources.answer is not None and on_clarify == "default":
        on_clarify = "ask"
    if resources.answer is not None and on_clarify != "ask":
        raise BadOption("answer= and on_clarify= exclude each other; give one", parameter="on_clarify")
    if on_clarify == "function" and resources.on_clarify is None:
        raise BadOption(
            'RunSpec(on_clarify="function") needs the function as resources.on_clarify',
            parameter="on_clarify",
        )
    if spec.confirm and on_clarify in ("default", "fail"):
        raise BadOption(
            f"confirm asks before anything is traded, but on_clarify is {on_clarify}: give "
            "Resources(answer=…), or on_clarify='ask' to stop at the question",
            parameter="confirm",
        )
    return replace(spec, on_clarify=on_clarify)


def _check_texts(spec: RunSpec, **others: object) -> None:
    """See that the texts can be written into the folder of a run."""
    check_sentence(spec.question, "question")
    for symbol in spec.symbols:
        check_text(symbol, "symbols")
    for name, value in {**others, "start": spec.start, "end": spec.end}.items():
        if isinstance(value, (str, Path)):
            check_text(str(value), name)


def start_run(spec: RunSpec, folder: Path, resources: Resources) -> RunResult:
    """Execute the run of :func:`prepare_run`, and return what :func:`run_strategy` does."""
    with _begun_run(spec, folder, resources) as (manifest, opened):
        result = execute_run(manifest, folder, opened, task=manifest.graph_input, thread=manifest.run_id)
    return RunResult(result, resources.ledger_place)


@contextmanager
def _begun_run(spec: RunSpec, folder: Path, resources: Resources) -> Iterator[tuple[Manifest, OpenRun]]:
    """Make the folder of a run, whose name is the run's, and open the run in it.

    Whenever the process is killed, the folder has ``run.json`` and ``result.json``, or does not exist.
    """
    run_id, settings = folder.name, resources.settings or load_settings()
    market = open_for(spec, resources.source, settings)
    option = settings.data_source if resources.source is None else resources.source
    source = source_json(market, option, language_of(spec.question))
    resources = replace(resources, settings=settings, source=market)
    code = spec.plan.benchmark if spec.plan else None
    if code and isinstance(market, FrameSource) and code not in {*market.symbols(), *market.market.levels}:
        raise BadOption(f"benchmark={code}: {market.name} has no levels of {code}", parameter="benchmark")
    if spec.rules is None:
        by_codes = rules_of(market, spec.symbols, spec.question, traded=spec.trade)
        spec = replace(spec, rules=by_codes)
    with staged_run_folder(folder) as staged:
        if spec.own is not None:
            keep_own_signal(spec.own, staged)
        with opened_run(spec, run_id, staged, resources) as opened:
            identity = identity_of(spec, opened.graph, opened.resources)
        manifest = Manifest(
            run_id=run_id,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            spec=spec,
            source=source,
            budgets={"budget": settings.budget, "session_budget": settings.session_budget},
            ledger=ledger_location(resources.ledger_place),
            decider=decider_place(resources.decider),
            versions=library_versions(tuple(settings.sandbox_packages)),
            identity=identity,
            labels=dict(ModelDecider.of(resources.decider).labels) if resources.decider else {},
        )
        manifest.write(staged)
        write_result(staged, initial_result(manifest, folder))
    with lock_folder(folder, f"run {run_id}"), opened_run(spec, run_id, folder, resources) as opened:
        yield manifest, opened
