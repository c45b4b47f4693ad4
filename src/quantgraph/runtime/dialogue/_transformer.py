"""The events of a run in LangGraph's event streaming, ``stream_events(version="v3")``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from langgraph.stream import ProtocolEvent, StreamChannel, StreamTransformer

from quantgraph.runtime.dialogue._events import Event


class EventsTransformer(StreamTransformer):
    """A run's events at any depth, as ``run.extensions["quantgraph"]`` of a v3 event stream.

    The graphs of this package are compiled with it. A host that has one of them as a node passes it, as
    ``compile(transformers=[EventsTransformer])`` or ``stream_events(..., transformers=[EventsTransformer])``.
    LangGraph's ``CustomTransformer`` has only the events of the graph's own depth, and all writers'.
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("custom",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._events: StreamChannel[Event] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the projection."""
        return {"quantgraph": self._events}

    def process(self, event: ProtocolEvent) -> bool:
        """Add an event of ours to the projection; every event stays in the stream."""
        data: Any = event["params"]["data"] if event["method"] == "custom" else None
        if isinstance(data, Mapping) and str(data.get("event")).startswith("quantgraph."):
            self._events.push(data)  # type: ignore[arg-type] # its name says which event it is
        return True
