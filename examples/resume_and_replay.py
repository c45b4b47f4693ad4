"""A run that waits for an answer, resumed later, perhaps by another process; then its replay.

The folder holds all replies: the replay calls no model and no source, and its ledger has the same bytes.
"""

from __future__ import annotations

from quantgraph import run_strategy
from quantgraph.runs import RunSpec, replay, resume_run

SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出"


def main() -> None:
    """Ask, stop, answer, replay."""
    waiting = run_strategy(RunSpec(question=SENTENCE, on_clarify="ask"), out="runs")
    print(waiting["ended_because"], "|", waiting["error"])
    done = resume_run(waiting["run_dir"], answer="2025年上半年")
    print(done["ended_because"], "|", done["account"]["trades"], "trades")
    replayed = replay(done["run_dir"])
    print("identical" if replayed.identical else replayed.differences)


if __name__ == "__main__":
    main()
