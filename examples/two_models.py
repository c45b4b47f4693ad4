"""A decider that asks two models in each session, one thread a symbol, and keeps what they said.

`quantgraph run SENTENCE --decider examples/two_models.py:Panel` asks the models of the settings; `quantgraph
resume` continues a run that was killed, and `quantgraph replay` repeats it without a model.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from quantgraph import run_strategy
from quantgraph.broker import Decision, DecisionContext, ModelDecider, Order
from quantgraph.testing import ScriptedChatModel

FILTER = "Is {symbol} worth a look? Its last closes: {closes}. Answer yes or no."
DECISION = "Buy, sell or hold {symbol}? Its last closes: {closes}. In the last session you said: {before}."


class Panel(ModelDecider):
    """One model chooses what is looked at, another says buy, sell or hold."""

    name = "panel"
    uses_signal = False
    roles = ("filter", "decision")
    prompts = {"filter": FILTER, "decision": DECISION}  # noqa: RUF012

    def decide(self, context: DecisionContext) -> Decision:
        symbols = list(context.view["ohlcv"]["close"].columns)
        with ThreadPoolExecutor() as pool:
            said = dict(zip(symbols, pool.map(partial(self.judge, context), symbols), strict=True))
        for number, (symbol, word) in enumerate(said.items(), start=1):
            held = context.account.quantity(symbol)
            if word == "buy" and not held:
                context.market.submit(Order(symbol=symbol, side="buy", quantity=100, sequence=number))
            elif word == "sell" and held:
                context.market.submit(Order(symbol=symbol, side="sell", quantity=held, sequence=number))
        return Decision(context.market.orders, notes=said, in_order=True)

    def judge(self, context: DecisionContext, symbol: str) -> str:
        """Ask both models about one symbol."""
        closes = context.view["ohlcv"]["close"][symbol].tail(5).tolist()
        before = context.history[-1].notes.get(symbol) if context.history else None
        with context.scope(symbol):
            look = context.model("filter").invoke(FILTER.format(symbol=symbol, closes=closes))
            if look.text != "yes":
                return "not looked at"
            asked = DECISION.format(symbol=symbol, closes=closes, before=before)
            return str(context.model("decision").invoke(asked).text)


if __name__ == "__main__":
    models = {
        "filter": ScriptedChatModel(lambda messages: "no" if "000342" in messages[0].text else "yes"),
        "decision": ScriptedChatModel(lambda messages: "sell" if "said: buy" in messages[0].text else "buy"),
    }
    sentence = "000341.SZ 000342.SZ 000343.SZ, 20250102 to 20250110"
    done = run_strategy(sentence, decider=Panel(), model=models, out="runs")
    print(done["ended_because"], done["account"]["trades"], "trades")
