"""A decider with a model, in a package of its own: ``pip install .``, then ``--decider dip_judge``.

All that quantgraph must know of it is in the class: its role, its prompt, what stands in for its model
without a key, and its words on the page of a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from quantgraph.broker import Decision, DecisionContext, ModelDecider, Order
from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.messages import read_json, wrap

ROLE = "dip_judge"
Side = Literal["buy", "sell"]
PROMPT = """You judge dips. The facts are the last closes of each symbol and the shares that are held.
Reply with one JSON object: {"buy": [symbols], "sell": [held symbols], "why": "a sentence"}."""


class Verdict(BaseModel):
    """The model's reply."""

    buy: list[str] = []
    sell: list[str] = []
    why: str = ""


def keyless_verdict(_messages: Sequence[BaseMessage], text: str) -> Mapping[str, Any]:
    """Stand in for the model: buy what fell by 2 % in three sessions, sell what rose by 2 %."""
    facts = json.loads(text)
    change = {symbol: each["closes"][-1] / each["closes"][0] - 1 for symbol, each in facts.items()}
    buy = [symbol for symbol, each in change.items() if each < -0.02 and not facts[symbol]["held"]]
    sell = [symbol for symbol, each in change.items() if each > 0.02 and facts[symbol]["held"]]
    return {"buy": buy, "sell": sell, "why": "keyless rule: the change of three sessions against 2 %"}


class DipJudge(ModelDecider):
    """Asks its model once a session which dips to buy, and which holdings to sell."""

    name = "dip_judge"
    uses_signal = False
    roles = (ROLE,)
    prompts = {ROLE: PROMPT}  # noqa: RUF012
    keyless = {"dip_facts": keyless_verdict}  # noqa: RUF012
    labels = {  # noqa: RUF012
        "decider_dip_judge": ("抄底智能体", "dip judge"),
        "role_dip_judge": ("抄底判断", "judge of dips"),
    }

    def decide(self, context: DecisionContext) -> Decision:
        closes, account = context.view["ohlcv"]["close"], context.account
        facts: dict[str, dict[str, Any]] = {
            str(symbol): {"closes": known.tolist(), "held": account.quantity(str(symbol))}
            for symbol in closes.columns
            if len(known := closes[symbol].dropna().tail(4)) == 4
        }
        if not facts:
            return Decision([], notes={"why": "fewer than four closes are known"})
        question = [SystemMessage(PROMPT), HumanMessage(wrap("dip_facts", json.dumps(facts)))]
        reply = context.model(ROLE).invoke(question)
        try:
            verdict = read_json(reply.content, Verdict)
        except ModelOutputInvalid as error:
            return Decision([], notes={"why": f"hold: {error.message}"})
        orders: list[tuple[str, Side, int]]
        orders = [(symbol, "sell", facts[symbol]["held"]) for symbol in verdict.sell if symbol in facts]
        orders += [(symbol, "buy", 100) for symbol in verdict.buy if symbol in facts]
        sent = [
            Order(symbol=symbol, side=side, quantity=quantity, sequence=place, reason=verdict.why)
            for place, (symbol, side, quantity) in enumerate(orders, start=1)
            if quantity
        ]
        return Decision(sent, notes={"why": verdict.why})
