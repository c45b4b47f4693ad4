"""What to say: which of its fields the signal subgraph shares with a graph that it is a node of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Required

import pandas as pd
from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from quantgraph.errors import BadOption, NoSignal
from quantgraph.runtime.graph_state import Groups, replace_groups
from quantgraph.state import GLOBAL_DATA_STATE, DataState

Share = Literal["document", "result"]


class SharedState(TypedDict, total=False):
    """What a host gives and gets with ``share="result"``; the group ``result`` says how the request ended."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    quantgraph: Annotated[Groups, replace_groups]


def schemas_of(share: str) -> Mapping[str, type]:
    """Return the schemas of a share; ``BadOption`` for another word."""
    if share == "result":
        return {"input_schema": SharedState, "output_schema": SharedState}
    if share == "document":
        return {}
    raise BadOption(f"share={share!r:.60}; valid: 'document', 'result'", parameter="share")


def signal_frame(out: Mapping[str, Any], store: DataState = GLOBAL_DATA_STATE) -> pd.DataFrame:
    """Return the signal that a run of the subgraph made, (sessions, symbols) of 1, 0, -1 and NaN.

    Raises
    ------
    NoSignal
        If the run has not ended with one.
    """
    result = (out.get("quantgraph") or {}).get("result") or {}
    if result.get("ended_because") != "done" or not (result.get("name") and result.get("data_ref")):
        raise NoSignal(f"the run has made no signal: {result.get('ended_because') or 'it has not ended'}")
    frame: pd.DataFrame = store.snapshot(result["data_ref"])["signal"][result["name"]]
    return frame
