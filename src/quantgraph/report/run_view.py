"""What the page of a run shows: plain data that were gathered from its folder, and nothing that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from quantgraph._util.texts import Language


@dataclass(frozen=True, kw_only=True)
class CallStory:
    """A request to a model, an agent's tool or a person, as it was recorded.

    Attributes
    ----------
    path
        Of the node, from the outermost graph down.
    kind
        ``model``, ``tool`` or ``answer``.
    role
        Of the model; who answered, if not a person.
    asked
        Messages that the calls before it at the same path did not have: who says it, and the text.
    reply
        Its text; the error's line if it failed.
    tools
        Tool calls in the reply: name and arguments.
    tokens
        Of prompt and completion, None if one is not known.
    """

    path: str
    kind: str
    role: str
    model: str
    asked: tuple[tuple[str, str], ...]
    reply: str
    tools: tuple[tuple[str, str], ...] = ()
    failed: bool = False
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class SessionStory:
    """A session of a decider that thinks.

    Attributes
    ----------
    session
        ``YYYYMMDD``.
    calls
        Its calls, in order.
    notes
        Of its decision, plain JSON.
    before, after
        Shares held at the end of the session before, and of this one.
    """

    session: str
    calls: tuple[CallStory, ...]
    notes: Mapping[str, Any]
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunView:
    """A run as its page shows it.

    Attributes
    ----------
    run_id
        Its name.
    language
        Of its sentence.
    result
        The content of ``result.json``.
    closing
        If it is not done: what happened, and what to do next.
    resumed_by
        The command that goes on with it; empty if it would end so again.
    missing
        Names of files and folders of the run that are gone, so that the page lacks what they had.
    decider
        Name of its decider.
    said
        What was understood, a line each.
    parameters
        Its configuration by name, plain JSON, without places of the machine.
    hashes
        Names and hashes: the run's identity, its data, its strategy, the head of its ledger.
    days
        See :meth:`~quantgraph.broker.Ledger.days`; empty if nothing was traded.
    fills
        A row a fill, in order: ``session`` (``YYYY-MM-DD``), ``symbol``, ``side``, ``quantity``, ``price``,
        ``notional``, ``cost`` (all charges), ``sequence``, ``reason``.
    refused
        A row an order that was refused, or cut off by the volume cap: ``session, symbol, side, quantity,
        code, message, sequence, reason``.
    splits
        By symbol: sessions in which a split changed a holding, and by how many shares.
    bars
        Frames sessions x symbols of open, high, low, close and vol, as far as there are any.
    signal
        The signal, sessions x symbols; None if there is none.
    indicators
        Called with symbols: by a label for people, the values (sessions x symbols) that the rule names.
    stories
        By session, of deciders that keep notes or ask models.
    calls
        Those outside of a session.
    code
        The strategy's source, empty if there is none.
    """

    run_id: str
    language: Language
    result: Mapping[str, Any]
    decider: str
    said: Sequence[str]
    parameters: Mapping[str, Any]
    hashes: Mapping[str, str]
    days: pd.DataFrame
    fills: pd.DataFrame
    refused: pd.DataFrame
    splits: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    bars: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    signal: pd.DataFrame | None = None
    indicators: Callable[[Sequence[str]], Mapping[str, pd.DataFrame]] = lambda _symbols: {}
    stories: Sequence[SessionStory] = ()
    calls: Sequence[CallStory] = ()
    code: str = ""
    closing: str = ""
    resumed_by: str = ""
    missing: Sequence[str] = ()
