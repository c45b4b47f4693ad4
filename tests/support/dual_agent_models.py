"""Both agents of the dual agent as a scripted model, and features to decide on."""

import json

from langchain_core.messages import AIMessage

from quantgraph.agents.dual_agent._config import Agents, Meter, is_model_failure
from quantgraph.llm.messages import read
from quantgraph.testing import ScriptedChatModel


def item(symbol, value=0.0, **market_data):
    """Features of one symbol, as they are written down for the two symbols of the examples."""
    return {
        "symbol": symbol,
        "features": {
            "market_data": {
                "ticker": symbol,
                "open": 184.20,
                "close_7d": [180.0, 182.0, 181.5, 183.0, 185.0, 186.5, 188.0],
                "date": "2025-06-15",
                **market_data,
            },
            "news_events": {"top_k_events": ["Strong Q2 earnings beat analyst expectations"]},
            "position_state": {
                "current_position_value": value,
                "holding_days": 45,
                "shares": value / 184.2,
                "sellable": value / 184.2,
            },
        },
    }


def decision(action, target=None, confidence="0.75", reasons=("Strong momentum",)):
    """One decision as a model writes it: numbers as text."""
    told = {} if target is None else {"target_cash_amount": target}
    return {"action": action, **told, "confidence": confidence, "reasons": list(reasons)}


def asked_by(ask, meter=None):
    """Agents of which the decision is asked by ``ask``."""
    return Agents(client=ask, ends_asking=is_model_failure, meter=meter or Meter())


def rows_by_column(told):
    """The facts of a prompt, each row of their table by column."""
    facts = json.loads(told)
    return facts | {
        "symbols": {
            name: dict(zip(facts["columns"], row, strict=True)) for name, row in facts["symbols"].items()
        }
    }


class Models:
    """Both agents: the filter chooses ``need``, the decision plays ``replies``, one a call."""

    def __init__(self, *replies, need=("AAPL",), usage=None):
        self.replies, self.need, self.usage = list(replies), need, usage
        self.filters, self.asked = [], []
        self.model = ScriptedChatModel(self.play)

    def play(self, messages):
        told = read("filter_facts", messages[1].text)
        if told is not None:
            self.filters.append(rows_by_column(told))
            reasoning = {symbol: f"why {symbol}" for symbol in self.filters[-1]["symbols"]}
            text = json.dumps({"stocks_need_fundamental": list(self.need), "reasoning": reasoning})
        else:
            self.asked.append([message.text for message in messages])
            text = self.replies.pop(0)
            if isinstance(text, Exception):
                raise text
            if isinstance(text, dict):
                text = json.dumps({"decisions": text})
        return text if self.usage is None else AIMessage(text, usage_metadata=self.usage)

    @property
    def facts(self):
        """What the decision was shown first, by call, with the rows of its table by column."""
        return [rows_by_column(read("decision_facts", messages[1])) for messages in self.asked]

    @property
    def cfg(self):
        return {
            "llm": {"model": self.model},
            "portfolio": {"total_cash": 100_000},
            "cache": {"mode": "off"},
            "features": {"filter": True},
        }
