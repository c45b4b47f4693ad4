"""A strategy file held against a sentence, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quantgraph._util.input_limits import check_sentence
from quantgraph.audit import Finding
from quantgraph.data import SourceLike
from quantgraph.data.symbol_resolution import names_in
from quantgraph.errors import BadOption
from quantgraph.llm.planner.request import RequestContext, read_request
from quantgraph.market.moment import Moment
from quantgraph.runs.outputs import read_strategy
from quantgraph.runs.strategy_data import strategy_data
from quantgraph.runtime.resources import Resources, merge_resources, open_resources
from quantgraph.subgraphs.signal.meaning_findings import Words, meaning_findings


def audit_said(
    path: str | Path,
    said: str,
    *,
    source: SourceLike | None = None,
    symbols: str | Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    resources: Resources | None = None,
) -> tuple[Finding, ...]:
    """Return how a strategy file departs from a sentence on the data of a source, as :func:`audit_strategy`.

    Codes and dates that are not given are those of the sentence.

    Raises
    ------
    BadFile, BadOption
        If the file is not a strategy, or the sentence is empty or too long.
    UnknownSymbol, BadWindow, NoData, CodeFailed
        If the source does not have the data, or the code fails on them.
    """
    check_sentence(said, "said")
    if not said.strip():
        raise BadOption("said is empty; it must be the sentence that the strategy was made from")
    strategy, opened = read_strategy(path), open_resources(merge_resources(resources, source=source))
    sessions = opened.source.sessions()
    context = RequestContext(
        first_session=f"{sessions[0]:%Y%m%d}",
        last_session=f"{sessions[-1]:%Y%m%d}",
        names=names_in(said, opened.source),
    )
    request = read_request(said, context)
    store = strategy_data(
        strategy,
        opened.source,
        symbols=symbols or request.symbols,
        start=start or request.start,
        end=end or request.end,
    )
    view = store.view(Moment(sessions[-1]))
    result = opened.runner.run(strategy.cells, view.frozen())
    if result.error is not None:
        raise result.error
    name = strategy.name or next(reversed(list(result.signals)), "")
    if name not in result.signals:
        raise BadOption(f"{path} hands over no signal {name}".rstrip())
    signal = result.signals[name]
    words = Words(texts=(said,), context=context, trade=tuple(map(str, signal.columns)))
    return tuple(meaning_findings(words, signal, strategy.cells, view, first=None))
