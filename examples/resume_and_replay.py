"""A run that waits for an answer and is resumed, perhaps by another process; its code, edited; a replay.

The folder holds all replies: the replay calls no model and no source, and its ledger has the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from quantgraph import run_strategy
from quantgraph.runs import RunSpec, replay, resume_run

SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出"


def main() -> None:
    """Ask, stop, answer, edit, replay."""
    waiting = run_strategy(RunSpec(question=SENTENCE, on_clarify="ask"), out="runs")
    print(waiting["ended_because"], "|", waiting["error"])
    done = resume_run(waiting["run_dir"], answer="2025年上半年")
    print(done["ended_because"], "|", done["account"]["trades"], "trades")
    edited = Path("edited.py")
    edited.write_text(done.code.replace("rolling(20)", "rolling(30)"), encoding="utf-8")
    own = run_strategy(edited, start="20250101", end="20250630", out="runs")  # sealed and proved
    print(own["question"], "|", own["account"]["trades"], "trades")
    replayed = replay(own["run_dir"])
    print("identical" if replayed.identical else replayed.differences)


if __name__ == "__main__":
    main()
