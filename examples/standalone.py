"""The signal subgraph alone: a sentence in, a validated signal and its code out."""

from __future__ import annotations

from quantgraph import GLOBAL_DATA_STATE, create_signal_subgraph

SENTENCE = (
    "members of 合成30, buy when the close breaks above the 20-day high, sell below the 10-day low, 2025"
)


def main() -> None:
    """Show what the subgraph returns."""
    graph = create_signal_subgraph(on_clarify="default")
    state = graph.invoke({"messages": [("user", SENTENCE)]})
    if state["ended_because"] != "done":
        raise SystemExit(state["error_messages"][-1])
    strategy = state["quantgraph"]["strategy"]
    signal = GLOBAL_DATA_STATE.snapshot(state["data_ref"])["signal"][strategy["name"]]
    print(strategy["cells"][-1])
    print(f"{strategy['name']}: {signal.shape[0]} sessions x {signal.shape[1]} symbols")
    print(f"buy {(signal == 1).sum().sum()}, sell {(signal == -1).sum().sum()}")
    print("assumed:", ", ".join(state["quantgraph"]["dialogue"]["assumptions"]) or "nothing")


if __name__ == "__main__":
    main()
