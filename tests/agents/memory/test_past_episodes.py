"""A run's own decisions as episodes: what was filled, and what came of it from its day on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents.memory import DecisionEpisode, EpisodeMemo, episodes_of, history_texts
from quantgraph.broker import Account, Decider, Decision, Market, Order, simulate
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.errors import BadOption
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState

Plan = Mapping[int, Mapping[str, tuple[str, float]]]
OPENS = [100.0, 102.0, 104.0, 110.0, 91.8, 120.0, 121.0, 122.0]


class Planned(Decider):
    """Decides by a plan: session, symbol, (action, target); keeps the episodes that each session saw."""

    name = "dual_agent"
    uses_signal = False

    def __init__(self, plan: Plan, read: Callable[..., Any]) -> None:
        self.plan, self.read, self.seen = plan, read, []

    def decide(self, context: Any) -> Decision:
        place = len(self.seen)
        self.seen.append(self.read(context.history, context.view))
        decided = self.plan.get(place, {})
        orders = [
            Order(symbol=symbol, target_value=Decimal(str(target)), sequence=number)
            for number, (symbol, (action, target)) in enumerate(decided.items(), start=1)
            if action != "hold"
        ]
        decisions = {
            symbol: {
                "action": action,
                "target_cash_amount": float(target),
                "confidence": 0.8,
                "reasons": [f"why {symbol}", "and more"],
                "tags": [action],
            }
            for symbol, (action, target) in decided.items()
        }
        return Decision(orders, notes={"decisions": decisions, "filter": {}, "meta": {}})


class Case:
    """A market of a few sessions, and a run of a plan over it."""

    def __init__(self, opens: Mapping[str, Sequence[float]], **fields: Any) -> None:
        self.store = DataState()
        first = next(iter(opens.values()))
        self.days = pd.bdate_range("2025-03-03", periods=len(first))
        frame = pd.DataFrame(opens, index=self.days, dtype="float64")
        panel = dict.fromkeys(("open", "high", "low", "close"), frame)
        panel |= {name: pd.DataFrame(given, index=self.days) for name, given in fields.items()}
        self.market = Market(
            store=self.store, data_ref=self.store.update("ohlcv", panel), rules=Rulebook.us(fractional=True)
        )

    def run(self, plan: Plan, cash: int = 100_000, **options: Any) -> list[list[DecisionEpisode]]:
        def read(history: Any, view: Any) -> list[DecisionEpisode]:
            return episodes_of(history, view, name="dual_agent", **options)

        decider = Planned(plan, read)
        self.results = list(simulate(self.market, self.days, decider, account=Account.opening(Decimal(cash))))
        return decider.seen

    def view(self, day: int = -1) -> Any:
        return self.store.view(Moment(self.days[day], "open"), self.market.data_ref)


def outcomes(seen: Sequence[Sequence[DecisionEpisode]]) -> list[list[float | None]]:
    return [[each.actual_result for each in episodes] for episodes in seen]


def test_a_filled_decision_is_an_episode_with_its_day_fill_and_reasons() -> None:
    seen = Case({"AAPL": OPENS}).run({0: {"AAPL": ("increase", 5000)}})
    assert seen[0] == []
    (episode,) = seen[1]
    told = (episode.date, episode.symbol, episode.strategy, episode.action, episode.target_amount)
    assert told == ("2025-03-03", "AAPL", "dual_agent", "increase", 5000.0)
    assert (episode.shares, episode.cash_change) == (50.0, 5000.0)
    assert episode.market_context == {"fill_price": 100.0}
    assert (episode.reasoning, episode.tags) == ("why AAPL; and more", ("increase",))


def test_the_outcome_is_the_return_to_the_open_three_sessions_later_from_that_open_on() -> None:
    seen = Case({"AAPL": OPENS}).run({0: {"AAPL": ("increase", 5000)}})
    # 110 / 100 - 1 = 10 %, at the open of the fourth session
    assert outcomes(seen[1:4]) == [[None], [None], [pytest.approx(10.0)]]
    assert seen[3][0].outcome_known == "2025-03-06"
    assert seen[7][0] == seen[3][0]


def test_a_sale_was_right_if_the_price_fell() -> None:
    seen = Case({"AAPL": OPENS}).run(
        {0: {"AAPL": ("increase", 5000)}, 1: {"AAPL": ("decrease", 2000)}, 2: {"AAPL": ("close", 0)}}
    )
    # bought at 100, open 110: +10; sold at 102, open 91.8: -10 %; closed at 104, open 120: +15.38 %
    assert outcomes(seen)[-1] == [pytest.approx(10.0), pytest.approx(10.0), pytest.approx(-100 * 16 / 104)]
    assert seen[-1][1].cash_change < 0 < seen[-1][1].shares


def test_adding_to_a_position_is_not_a_profit() -> None:
    flat = [100.0] * 6
    seen = Case({"AAPL": flat}).run({0: {"AAPL": ("increase", 5000)}, 1: {"AAPL": ("increase", 9000)}})
    assert outcomes(seen)[-1] == [pytest.approx(0.0), pytest.approx(0.0)]


def test_rejections_holds_and_decisions_without_a_fill_are_no_episodes() -> None:
    suspended = [100.0, np.nan, 100.0, 100.0]
    plan: Plan = {0: {"AAPL": ("increase", 9_000_000), "MSFT": ("hold", 0)}, 1: {"AAPL": ("increase", 5000)}}
    seen = Case({"AAPL": suspended, "MSFT": [1.0] * 4}).run(plan)
    assert seen[-1] == []


def test_a_suspension_delays_the_outcome_to_the_next_open() -> None:
    seen = Case({"AAPL": [100.0, 101.0, 102.0, np.nan, np.nan, 95.0], "B": [1.0] * 6}).run(
        {0: {"AAPL": ("increase", 5000)}}
    )
    assert outcomes(seen[3:]) == [[None], [None], [pytest.approx(-5.0)]]
    assert seen[5][0].outcome_known == "2025-03-10"


def cells(days: int, place: int, value: float, rest: float = np.nan) -> dict[str, list[float]]:
    return {"AAPL": [value if each == place else rest for each in range(days)]}


@pytest.mark.parametrize(
    "fields",
    [
        # 100 before, 2 dividend: the ex-price is 98, and 98 / 98 - 1 = 0
        {"dividend": cells(5, 2, 2.0)},
        {"pre_close": {"AAPL": [100.0, 100.0, 98.0, 98.0, 98.0]}},
        {"adj_factor": {"AAPL": [1.0, 1.0, 100 / 98, 100 / 98, 100 / 98]}},
    ],
)
def test_a_dividend_in_between_is_no_loss(fields: dict[str, Any]) -> None:
    seen = Case({"AAPL": [100.0, 100.0, 98.0, 98.0, 98.0]}, **fields).run({0: {"AAPL": ("increase", 5000)}})
    assert outcomes(seen)[-1] == [pytest.approx(0.0, abs=1e-9)]


def test_a_split_in_between_is_no_loss_and_one_on_the_day_of_the_fill_is_in_its_price() -> None:
    case = Case({"AAPL": [100.0, 100.0, 25.0, 25.0, 27.5, 27.5]}, split=cells(6, 2, 4.0))
    seen = case.run({0: {"AAPL": ("increase", 5000)}, 1: {"AAPL": ("increase", 6000)}})
    assert outcomes(seen)[-1] == [pytest.approx(0.0), pytest.approx(10.0)]
    on_the_day = case.run({2: {"AAPL": ("increase", 5000)}})
    assert outcomes(on_the_day)[-1] == [pytest.approx(10.0)]


def test_the_outcome_is_the_return_of_the_adjusted_open() -> None:
    case = Case(
        {"AAPL": [50.0, 51.0, 48.5, 24.6, 25.2, 25.0]}, dividend=cells(6, 2, 1.5), split=cells(6, 3, 2.0)
    )
    (episode,) = case.run({0: {"AAPL": ("increase", 5000)}})[-1]
    adjusted = case.view().adjusted("open")["AAPL"]
    assert episode.actual_result == pytest.approx(100 * (adjusted.iloc[3] / adjusted.iloc[0] - 1))


def test_a_memo_changes_nothing_and_neither_does_the_moment_of_asking() -> None:
    rng = np.random.default_rng(7)
    opens = {name: 100 + rng.normal(0, 1, 30).cumsum() for name in ("A", "B", "C")}
    plan: Plan = {
        day: {name: ("increase", float(1000 * (day + 1))) for name in opens if rng.random() < 0.5}
        for day in range(30)
    }
    case, memo = Case(opens), EpisodeMemo()
    with_memo, without = case.run(plan, memo=memo), case.run(plan)
    assert with_memo == without
    at_the_end = episodes_of(case.results[:-1], case.view(), name="dual_agent", memo=memo)
    assert at_the_end == without[-1]
    assert len(at_the_end) > 20
    known = [each.as_of(f"{case.days[15]:%Y-%m-%d}") for each in at_the_end]
    assert [each for each in known if each] == without[15]


def test_a_resumed_run_has_the_same_episodes(tmp_path: Any) -> None:
    case = Case({"AAPL": OPENS})
    plan: Plan = {0: {"AAPL": ("increase", 5000)}, 1: {"AAPL": ("close", 0)}}
    whole = case.run(plan)[-1]

    def read(history: Any, view: Any) -> list[DecisionEpisode]:
        return episodes_of(history, view, name="dual_agent", memo=EpisodeMemo())

    for end in (4, len(OPENS)):  # another process goes on after the fourth session
        ledger, decider = Ledger(tmp_path / "ledger.sqlite"), Planned(plan, read)
        done = 0 if end == 4 else 4
        decider.seen = [[]] * done
        run_sessions(case.market, case.days[:end], decider, cash=100_000, ledger=ledger, run_id="r")
    assert decider.seen[-1] == whole


def test_sessions_of_another_decider_and_other_notes_are_left_out() -> None:
    case = Case({"AAPL": OPENS})
    case.run({0: {"AAPL": ("increase", 5000)}})
    assert episodes_of(case.results, case.view(), name="other") == []
    assert len(episodes_of(case.results, case.view(), name="dual_agent")) == 1


def test_the_run_is_part_of_the_id_and_the_horizon_is_an_option() -> None:
    case = Case({"AAPL": OPENS})
    case.run({0: {"AAPL": ("increase", 5000)}})
    (one,) = episodes_of(case.results, case.view(), name="dual_agent", run_id="a", horizon=1)
    (other,) = episodes_of(case.results, case.view(), name="dual_agent", run_id="b")
    assert one.id != other.id
    assert (one.run_id, one.actual_result) == ("a", pytest.approx(2.0))
    for horizon in (0, True, 1.5):
        with pytest.raises(BadOption, match=r"horizon=.*; must be a whole number >= 1"):
            episodes_of((), case.view(), name="x", horizon=horizon)  # type: ignore[arg-type]


def test_the_texts_of_a_prompt() -> None:
    def episode(day: int, symbol: str = "AAPL", **more: Any) -> DecisionEpisode:
        return DecisionEpisode(
            symbol=symbol,
            action="increase",
            target_amount=5000,
            confidence=0.8,
            date=f"2025-06-{day}",
            **more,
        )

    told = episode(10, actual_result=2.3, outcome_known="2025-06-13")
    given = [told, episode(11), episode(12, "TSLA")]
    assert history_texts(given, ["MSFT", "AAPL"]) == {
        "AAPL": "Previous decisions:\n"
        "2025-06-10: increase to $5000 (confidence: 0.8) -> +2.3%\n"
        "2025-06-11: increase to $5000 (confidence: 0.8)"
    }
    many = history_texts([episode(day) for day in range(10, 20)], ["AAPL"], n=5)["AAPL"].splitlines()
    assert (many[1][:10], many[5][:10], many[6]) == (
        "2025-06-15",
        "2025-06-19",
        "(5 earlier ones are left out)",
    )


def test_with_a_memo_settled_episodes_are_not_made_again() -> None:
    case, memo = Case({"AAPL": OPENS}), EpisodeMemo()
    seen = case.run({0: {"AAPL": ("increase", 5000)}, 6: {"AAPL": ("close", 0)}}, memo=memo)
    again = episodes_of(case.results, case.view(), name="dual_agent", memo=memo)
    assert again[0] is seen[3][0] is seen[7][0]
    assert len(again) == 2
