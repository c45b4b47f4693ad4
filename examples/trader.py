"""The autonomous trader over three sessions of the sample: its calls, its fills, and how each session ended.

`quantgraph run "autonomous trader on 600958.SH, January 2025" --decider trader` is the same without Python,
and `quantgraph logs` shows its steps. Without a key the keyless planner answers for the model.
"""

from __future__ import annotations

from quantgraph import run_strategy
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker.ledger import Ledger

if __name__ == "__main__":
    sentence = "autonomous trader on 000341.SZ, 600958.SH, 20250102 to 20250106"
    done = run_strategy(sentence, decider=TraderAgent(max_steps=20), out="runs")
    with Ledger(f"{done['run_dir']}/ledger.sqlite") as ledger:
        days, results = ledger.executions(done["run_id"]), list(ledger.results(done["run_id"]))
    for day, result in zip(days, results, strict=True):
        calls = [call["name"] for step in day.steps for call in step.action["tool_calls"]]
        notes = result.notes["trader"]
        print(f"{day.session:%m-%d}: {', '.join(calls)}; {len(result.fills)} fills; {notes['ended']}")
    print(f"{done['ended_because']}: value {done['account']['final_value']:,.2f}")
