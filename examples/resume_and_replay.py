"""A run that waits for an answer, gone on with later, perhaps by another process; then its replay.

What the run asked of the world is in its folder: the replay asks nobody, and its ledger has the same bytes.
"""

from __future__ import annotations

from quantgraph import run_strategy
from quantgraph.runs import resume_run
from quantgraph.runs.replay import replay

SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出"


def main() -> None:
    """Ask, stop, answer, replay."""
    waiting = run_strategy(SENTENCE, on_clarify="ask", out="runs")
    print(waiting["ended_because"], "|", waiting["error"])
    done = resume_run(waiting["run_dir"], answer="2025年上半年")
    print(done["ended_because"], "|", done["account"]["trades"], "trades")
    again = replay(done["run_dir"])
    print("identical" if again.identical else again.differences)


if __name__ == "__main__":
    main()
