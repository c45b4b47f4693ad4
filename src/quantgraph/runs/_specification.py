"""Specification of a run: what it is, and its source, as plain JSON; both are in ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import ConfigDict, Field, TypeAdapter

from quantgraph._util.packages import code_values
from quantgraph._util.texts import Language
from quantgraph.broker import Account, TradePlan
from quantgraph.data import DescribedSource, MarketDataSource, SourceLike, open_source
from quantgraph.data.files import FileSource
from quantgraph.data.symbols import symbol_list
from quantgraph.errors import BadFile, BadOption, BadWindow
from quantgraph.market import Rulebook, session_of
from quantgraph.sentences.phrases import symbols_in
from quantgraph.settings import Settings, TableOptions
from quantgraph.state.frames import Made

OnClarifyMode = Literal["ask", "default", "fail", "function"]


@dataclass(frozen=True, kw_only=True)
class OwnSignal:
    """A signal of the caller's, computed and proved before the run: no model codes one.

    Attributes
    ----------
    kind
        ``frame``: not proved; ``function``: proved, with the caller's rights; ``file``: proved and sealed;
        ``rule``: causal by construction.
    name, origin
        Of the signal, and of the function or the file.
    panel, bottom
        What it is: ``signal``, ``weights``, or the signal of a ``score``, whose ``bottom`` lowest are sold.
    params
        Of a function or a file, plain JSON by name; dates are texts, ``2025-01-31``. ``origin`` has them.
    cells, code_hash
        Source of the function or the file, and its content hash; a frame's hash is its ``ref``.
    ref, frames
        Commit of the signal in the run's folder; and what it has, until it is there.
    said
        Whether the question is a sentence that it is compared with; else it is a title.
    proof, warm_up, data_start
        The verdict on its causality, sessions that a row needs, and the first of them; None if not known.
    """

    kind: Literal["frame", "function", "file", "rule"]
    name: str
    panel: Made = "signal"
    bottom: int | None = None
    origin: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    cells: tuple[str, ...] = ()
    code_hash: str
    ref: str
    said: bool = False
    proof: Mapping[str, Any] | None = None
    warm_up: int | None = None
    data_start: str | None = None
    frames: Annotated[Any, Field(exclude=True)] = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What a run is, as plain data.

    Attributes
    ----------
    question
        The sentence, in Chinese or English, of at most 10,000 characters.
    symbols, start, end
        Fixed by the caller, else empty; they win over the sentence. Symbols are codes, names or indices; one
        text is split at its commas.
    cash
        Initial cash, in the market's currency. Default: the sentence's, else 1,000,000.
    rules
        The market's rules and fees. Default: of the market whose codes ``symbols``, or else the
        source's files or frames, have (of two markets, those that the sentence names); mainland China's if
        there are none.
    plan
        How positions end, beside what the decider orders; None: as it orders.
    split
        A date: the strategy is made and checked with data before it alone; both sides are traded and judged.
    trade
        False stops after the signal.
    approve
        Whether the orders of each session are a question, too, before they are sent.
    confirm
        Whether the understanding of the sentence is a question, before data are fetched and anything is
        traded; ``on_clarify`` must be ``ask`` or ``function`` then.
    on_clarify
        How questions are answered: ``default`` takes the documented defaults and lists them in
        ``assumptions``, ``fail`` ends the run, ``ask`` stops the run to be resumed with an answer, unless
        ``Resources.answer`` gives one, and ``function`` calls ``Resources.on_clarify``, whose answers are
        listed in ``assumptions``. With ``Resources.answer``, ``default`` becomes ``ask``.
    own
        A signal of the caller's in place of a model's; :func:`run_strategy` makes it of its ``strategy``.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    question: str
    symbols: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    cash: Decimal | None = None
    rules: Rulebook | None = None
    plan: TradePlan | None = None
    split: str = ""
    trade: bool = True
    approve: bool = False
    confirm: bool = False
    on_clarify: OnClarifyMode = "default"
    own: OwnSignal | None = None

    def __post_init__(self) -> None:
        if self.cash is not None:
            cash = Account.opening(self.cash).cash
            if cash <= 0:
                raise BadOption(f"cash={self.cash}: must be > 0", parameter="cash")
            if not isinstance(cast("object", self.cash), Decimal):
                object.__setattr__(self, "cash", cash)
        object.__setattr__(self, "symbols", symbol_list(self.symbols))
        for name in ("start", "end", "split"):
            try:
                session_of(getattr(self, name) or "20000101", name=name)
            except BadWindow as error:
                raise BadOption(error.message, parameter=name) from error

    @property
    def constraints(self) -> dict[str, str]:
        """What the caller has fixed, for the initial state of the graph."""
        return {"ts_code": ",".join(self.symbols), "start_date": self.start, "end_date": self.end}

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, decimals as text."""
        values: dict[str, Any] = _SPEC.dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RunSpec:
        """Inverse of :meth:`as_json`.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or not valid.
        """
        return _SPEC.validate_python(stored)


_SPEC = TypeAdapter(RunSpec)


def source_json(source: MarketDataSource, option: object, language: Language) -> dict[str, Any]:
    """The facts on a source in a run's folder: ``name``, ``synthetic``, ``open``, ``provenance``, ``tables``.

    ``open`` is the argument of ``open_source``, None for an object of the caller's; ``provenance`` says in
    ``language`` which columns were taken for what; ``tables`` are options of a file that it does not state.
    """
    to_open = option if isinstance(option, str) else None
    lines: tuple[str, ...] = ()
    if isinstance(source, DescribedSource):
        to_open = source.opens()
        lines = () if source.synthetic else source.provenance(language)
    tables = source.options.model_dump(exclude_none=True) if isinstance(source, FileSource) else {}
    facts = {"name": source.name, "synthetic": source.synthetic, "open": to_open, "provenance": list(lines)}
    return facts | ({"tables": tables} if tables else {})


def open_for(spec: RunSpec, source: SourceLike | None, settings: Settings) -> MarketDataSource:
    """Open the source of a run; rows without a symbol are of the only one that the caller gives or says."""
    symbol = spec.symbols[0] if len(spec.symbols) == 1 else None
    codes = () if spec.symbols else symbols_in(spec.question, {})
    if len(codes) == 1:
        try:
            opened = open_source(source, settings=settings)
            if isinstance(opened, FileSource):
                opened.symbols()
        except BadFile as error:  # another error is raised where the source is read
            symbol = codes[0] if error.data.get("columns") == ("ts_code",) else None
        else:
            return opened
    return open_source(source, settings=settings, symbol=symbol)


def with_recorded_tables(settings: Settings, stored: Mapping[str, Any]) -> Settings:
    """The settings with the table options of a recorded run, where they have no other."""
    tables = {**stored.get("tables", {}), **settings.tables.model_dump(exclude_none=True)}
    return settings.model_copy(update={"tables": TableOptions(**tables)})


def recorded_source_name(stored: Mapping[str, Any]) -> str:
    """The argument of ``open_source`` for the source of a recorded run."""
    if stored["open"] is None:
        raise BadOption(
            f"source {stored['name']!r} of the run was an object; pass it again as source=",
            parameter="source",
        )
    return str(stored["open"])


def source_fingerprint(source: MarketDataSource) -> dict[str, str]:
    """Hashes of a source's content by name, or its class and name; and of its package's code."""
    code = code_values("quantgraph.sources", type(source).__module__, "source.")
    if isinstance(source, DescribedSource):
        return {**source.fingerprint(), **code}
    return {"source": f"{type(source).__qualname__} {source.name}", **code}
