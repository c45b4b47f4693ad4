"""The plain calls, with the documented examples: results, counts, contexts, refusals, caches, and what is not valid."""

import json
from copy import deepcopy

import pytest
from dual_agent_models import Models, decision, item

from quantgraph.agents.dual_agent import (
    _decide_batch_portfolio_dual_agent,
    decide_batch_dual_agent,
    filter_stocks_needing_fundamental,
)
from quantgraph.agents.dual_agent._config import LLMClient, LLMConfig
from quantgraph.errors import BadOption, ModelUnavailable, NotConfigured
from quantgraph.testing import Fault, OpenAIStub

REJECTED = {
    "symbol": "AAPL",
    "reason": "insufficient_cash",
    "retry_count": 1,
    "context": {
        "portfolio_rebalance_needed": True,
        "available_cash": 10000,
        "total_cash_required_all_orders": 15000,
        "cash_shortfall": 5000,
    },
}


def test_the_documented_example(features):
    told = {"AAPL": decision("increase", "7500.0"), "TSLA": decision("hold", "3000.0", "0.6")}
    models = Models(told, usage={"input_tokens": 1750, "output_tokens": 425, "total_tokens": 2175})
    results = decide_batch_dual_agent(features, models.cfg, run_id="backtest_20250615")
    assert list(results) == ["AAPL", "TSLA", "__meta__"]
    assert results["AAPL"] == {
        "action": "increase",
        "target_cash_amount": 7500.0,
        "cash_change": 2500.0,
        "reasons": ["Strong momentum"],
        "confidence": 0.75,
        "timestamp": "2025-06-15T09:00:00",
    }
    assert results["TSLA"]["cash_change"] == 0.0
    assert results["TSLA"]["hold_reason"] == "model"
    meta = results["__meta__"]
    assert meta.pop("latency_ms_sum") >= 0
    assert meta == {
        "calls": 2,
        "cache_hits": 0,
        "parse_errors": 0,
        "tokens_prompt": 3500,
        "tokens_completion": 850,
        "prompt_version": "decision/agent/v1",
    }


def test_the_decision_sees_the_documented_facts(features):
    models = Models({"AAPL": decision("hold"), "TSLA": decision("hold")})
    decide_batch_dual_agent(features, models.cfg)
    (facts,) = models.facts
    assert facts["portfolio_info"] == {
        "total_assets": 100000.0,
        "available_cash": 92000.0,
        "position_value": 8000.0,
    }
    apple, tesla = (facts["symbols"][name] for name in ("AAPL", "TSLA"))
    assert (apple["pe_ratio"], apple["filter_reasoning"], apple["price"]) == (28.5, "why AAPL", 185.5)
    # The filter did not ask for TSLA's, and is shown no fundamentals itself.
    assert (tesla["pe_ratio"], tesla["filter_reasoning"]) == (None, None)
    assert "pe_ratio" not in models.filters[0]["symbols"]["AAPL"]


def test_a_symbol_without_a_valid_decision_is_held_alone(features):
    faulty = {"TSLA": decision("buy", 9000)}
    models = Models({"AAPL": decision("increase", 7500), **faulty}, faulty, faulty)
    results = decide_batch_dual_agent(features, models.cfg)
    assert results["AAPL"]["target_cash_amount"] == 7500.0
    held = results["TSLA"]
    assert (held["action"], held["target_cash_amount"], held["confidence"]) == ("hold", 3000.0, 0.5)
    assert held["hold_reason"] == "fallback"
    assert "buy" in held["reasons"][0]
    # Fields of a fallback alone.
    extra = {"analysis_excerpt", "tech_score", "sent_score", "event_risk"}
    assert extra <= held.keys()
    assert not extra & results["AAPL"].keys()


def test_cash_that_does_not_suffice_is_asked_about_and_then_spent_in_order(features):
    both = {"AAPL": decision("increase", 60_000), "TSLA": decision("increase", 60_000)}
    models = Models(both, both, both)
    results = decide_batch_dual_agent(features, models.cfg)
    assert "not enough cash" in models.asked[1][-1]
    # 92,000 of cash: 55,000 for the first, and the second has the 37,000 that are left of its 57,000.
    assert results["AAPL"]["target_cash_amount"] == 60_000
    assert (results["TSLA"]["action"], results["TSLA"]["target_cash_amount"]) == ("increase", 40_000)
    assert results["TSLA"]["note"] == "an increase by 57000.00 is cut to the cash that is left, 37000.00"


def test_the_models_order_decides_who_is_cut_and_not_that_of_the_symbols():
    """ZZZ stands first in the reply, so AAPL has what is left; symbols in lower case and a list are read."""
    wished = {"ZZZ": decision("increase", 6_000, 0.2), "AAPL": decision("increase", 6_000, 0.9)}
    listed = [{"symbol": name.lower(), **each} for name, each in wished.items()]
    for symbols in (("AAPL", "ZZZ"), ("ZZZ", "AAPL")):
        for reply in (wished, json.dumps({"decisions": listed})):
            models = Models(*[reply] * 3)
            cfg = models.cfg | {"portfolio": {"total_cash": 10_000}}
            results = decide_batch_dual_agent([item(symbol) for symbol in symbols], cfg)
            assert [results[name]["target_cash_amount"] for name in ("ZZZ", "AAPL")] == [6_000, 4_000]


@pytest.mark.parametrize(("confidence", "targets"), [(0.9, [4_000, 6_000]), (0.2, [6_000, 4_000])])
def test_a_renewed_decision_has_its_place_in_the_latest_reply_and_confidence_breaks_a_tie(
    confidence, targets
):
    """ZZZ is first in the first reply, AAPL in the one that renews it."""
    faulty = {"ZZZ": decision("increase", 6_000, 0.5), "AAPL": decision("increase", -1, 0.5)}
    models = Models(faulty, {"AAPL": decision("increase", 6_000, confidence)})
    cfg = models.cfg | {"portfolio": {"total_cash": 10_000}, "agents": {"retry": {"max_attempts": 2}}}
    results = decide_batch_dual_agent([item("AAPL"), item("ZZZ")], cfg)
    assert [results[name]["target_cash_amount"] for name in ("ZZZ", "AAPL")] == targets


def test_a_refused_order_is_told_and_its_attempts_count(features):
    faulty = {"AAPL": decision("increase", 1)}
    models = Models(faulty, faulty)
    results = decide_batch_dual_agent(features, models.cfg, rejected_orders=[REJECTED])
    first = models.asked[0][1]
    assert "15000" in first
    assert "5000" in first
    # Two of three attempts are left after the first refusal.
    assert len(models.asked) == 2
    assert results["AAPL"]["hold_reason"] == "rejected"


def test_a_refused_order_renews_its_symbol_alone(features):
    models = Models(
        {"AAPL": decision("increase", 90_000), "TSLA": decision("increase", 5_000)},
        {"AAPL": decision("increase", 6_000)},
    )
    first = decide_batch_dual_agent(features, models.cfg)
    second = decide_batch_dual_agent(
        features, models.cfg, previous_decisions=first, rejected_orders=[REJECTED | {"retry_count": 2}]
    )
    assert second["AAPL"]["target_cash_amount"] == 6_000
    assert second["TSLA"] == first["TSLA"]
    assert second["__meta__"]["calls"] == 2  # the filter and the decision
    # 92,000 of cash, of which the increase of TSLA by 2,000 is spent.
    assert models.facts[1]["portfolio_info"]["available_cash"] == 90_000
    assert list(models.facts[1]["symbols"]) == ["AAPL"]


def test_a_decision_that_nobody_hands_over_again_is_no_fallback(features):
    models = Models({"AAPL": decision("increase", 6_000)})
    results = decide_batch_dual_agent(features, models.cfg, rejected_orders=[REJECTED])
    held = results["TSLA"]
    assert (held["action"], held["hold_reason"], held["cash_change"]) == ("hold", "stands", 0.0)
    assert list(results) == ["AAPL", "TSLA", "__meta__"]


def test_a_rejected_order_of_an_unknown_symbol_is_refused(features):
    with pytest.raises(BadOption, match="rejected_orders: 'ZZZ' is not among the symbols"):
        decide_batch_dual_agent(features, Models().cfg, rejected_orders=[REJECTED | {"symbol": "ZZZ"}])


def test_a_server_that_fails_in_a_retry_takes_no_valid_decision_away(features, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    chosen = {"stocks_need_fundamental": [], "reasoning": {}}
    decided = {"decisions": {"AAPL": decision("increase", 7500), "TSLA": decision("nope", 1)}}
    answers = [json.dumps(chosen), json.dumps(decided)]
    with OpenAIStub(lambda _: answers.pop(0) if answers else Fault.http(500)) as stub:
        llm = {"model": "m", "base_url": stub.base_url, "retry": {"max_retries": 0}}
        results = decide_batch_dual_agent(features, {"llm": llm, "cache": {"mode": "off"}})
        assert len(stub.requests) == results["__meta__"]["calls"] == 3
    assert results["AAPL"]["target_cash_amount"] == 7500.0
    assert (results["TSLA"]["action"], results["TSLA"]["hold_reason"]) == ("hold", "fallback")
    assert "500" in results["TSLA"]["reasons"][0]


def test_a_call_that_a_budget_refuses_is_not_counted(features):
    usage = {"input_tokens": 10, "output_tokens": 900, "total_tokens": 910}
    faulty = {"AAPL": decision("increase", 7500), "TSLA": decision("nope", 1)}
    models = Models(faulty, usage=usage)
    cfg = models.cfg
    cfg["llm"] |= {"budget": {"max_completion_tokens": 1_800}}
    results = decide_batch_dual_agent(features, cfg, run_id="spent_in_a_retry")
    assert results["AAPL"]["target_cash_amount"] == 7500.0
    assert "budget_exceeded" in results["TSLA"]["reasons"][0]
    # The filter and the first decision; the retry was not sent.
    assert (results["__meta__"]["calls"], len(models.asked)) == (2, 1)


def test_what_fits_stands_if_nothing_readable_follows_a_lack_of_cash(features):
    models = Models(
        {"AAPL": decision("increase", 60_000), "TSLA": decision("increase", 60_000)}, "oops", "oops"
    )
    results = decide_batch_dual_agent(features, models.cfg)
    assert [results[name]["target_cash_amount"] for name in ("AAPL", "TSLA")] == [60_000, 40_000]
    meta = results["__meta__"]
    assert (meta["parse_errors"], meta["cash_errors"]) == (2, 1)


def test_the_lack_of_cash_names_what_must_stay(features):
    models = Models(
        {"AAPL": decision("increase", 98_000), "TSLA": decision("hold")},
        {"AAPL": decision("increase", 87_000)},
    )
    cfg = models.cfg | {"portfolio": {"total_cash": 100_000, "min_cash_ratio": 0.1}}
    assert decide_batch_dual_agent(features, cfg)["AAPL"]["target_cash_amount"] == 87_000
    # 93,000 are wished of 92,000, and 10,000 of the 100,000 must stay.
    told = models.asked[1][-1]
    assert "cash is 92000.00, of which 10000.00 must stay (10.00 % of the total assets)" in told
    assert "11000.00 is missing" in told


def test_less_cash_than_the_positions_are_worth_is_refused(features):
    cfg = Models().cfg | {"portfolio": {"total_cash": 5_000}}
    with pytest.raises(BadOption, match=r"total_cash=5000 is cash and positions together; .* 8000\.00"):
        decide_batch_dual_agent(features, cfg)


def test_no_model_is_asked_when_they_are_not_enabled_and_the_holds_are_on_the_bus(features, context):
    ctx = context(Models())
    results = decide_batch_dual_agent(features, ctx=ctx, enable_llm=False)
    assert ctx.get("decisions") == {name: results[name] for name in ("AAPL", "TSLA")}
    assert {results[name]["hold_reason"] for name in ("AAPL", "TSLA")} == {"fallback"}
    assert results["__meta__"]["calls"] == 0


@pytest.mark.parametrize("cfg", [None, {}, {"portfolio": {}}])
def test_models_need_a_configuration(features, cfg):
    with pytest.raises(ValueError, match="has no 'llm'"):
        decide_batch_dual_agent(features, cfg)


def test_a_server_that_fails_holds_everything_and_says_so(features):
    models = Models(ModelUnavailable("the server is down"))
    results = decide_batch_dual_agent(features, models.cfg)
    assert {results[name]["hold_reason"] for name in ("AAPL", "TSLA")} == {"fallback"}
    assert "the server is down" in results["__meta__"]["failed"]


def test_a_model_without_its_key_is_no_hold(features, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(NotConfigured):
        decide_batch_dual_agent(features, {"llm": {"model": "gpt-4o-mini"}})


def test_a_spent_budget_is_a_fallback_and_counts_over_the_run(features):
    usage = {"input_tokens": 900, "output_tokens": 10, "total_tokens": 910}
    hold = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models(hold, hold, usage=usage)
    cfg = models.cfg
    cfg["llm"] |= {"budget": {"max_prompt_tokens": 20_000}}
    first = decide_batch_dual_agent(features, cfg, run_id="spends")
    cfg["llm"] |= {"budget": {"max_prompt_tokens": 1}}
    assert "failed" not in first["__meta__"]
    assert "failed" not in decide_batch_dual_agent(features, cfg, run_id="spends")["__meta__"]
    other = decide_batch_dual_agent(features, cfg, run_id="has_nothing")
    assert other["__meta__"]["failed"].startswith("budget_exceeded")
    assert other["AAPL"]["hold_reason"] == "fallback"


def test_a_context_gives_the_configuration_and_takes_the_decisions(features, context):
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("hold")})
    ctx = context(models)
    ctx.put("portfolio", {"cash": 50_000})
    results = decide_batch_dual_agent(features, ctx=ctx)
    assert models.facts[0]["portfolio_info"]["total_assets"] == 58_000
    assert ctx.get("decisions") == {name: results[name] for name in ("AAPL", "TSLA")}


def on(features, date):
    """The features of another day."""
    moved = deepcopy(features)
    for each in moved:
        each["features"]["market_data"]["date"] = date
    return moved


def test_the_memory_of_a_later_day_and_of_the_same_one_is_not_shown(features, context):
    hold = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("hold")}, hold, hold)
    ctx = context(models)
    decide_batch_dual_agent(on(features, "2025-06-16"), ctx=ctx)
    decide_batch_dual_agent(on(features, "2025-06-13"), ctx=ctx)
    decide_batch_dual_agent(on(features, "2025-06-16"), ctx=ctx)
    assert [each["history"] for each in models.facts] == [{}, {}, {}]


def test_a_hold_in_place_of_a_rejected_decision_leaves_nothing_in_the_memory(features, context):
    hold = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("increase", 4000)}, hold)
    ctx = context(models)
    decide_batch_dual_agent(features, ctx=ctx)
    assert len(ctx.memory.episodes.query()) == 2
    decide_batch_dual_agent(features, ctx=ctx, rejected_orders=[REJECTED])
    assert [each.symbol for each in ctx.memory.episodes.query()] == ["TSLA"]
    assert ctx.get("decisions")["TSLA"]["target_cash_amount"] == 4000


def test_features_without_a_date_make_no_memory(features, context):
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("hold")})
    ctx = context(models)
    decide_batch_dual_agent(on(features, None), ctx=ctx)
    assert ctx.memory.episodes.query() == []


def test_the_memory_is_loaded_and_stored(features, context):
    hold = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("hold")}, hold)
    ctx = context(models)
    decide_batch_dual_agent(features, ctx=ctx)
    decide_batch_dual_agent(on(features, "2025-06-16"), ctx=ctx)
    # A hold is no episode.
    assert models.facts[1]["history"] == {
        "AAPL": "Previous decisions:\n2025-06-15: increase to $7500 (confidence: 0.75), bought 2500; Strong momentum"
    }
    (episode,) = ctx.memory.episodes.query(symbol="AAPL")
    assert (episode.date, episode.action, episode.run_id) == ("2025-06-15", "increase", "backtest_20250615")
    assert "momentum" in episode.tags


def test_a_history_of_the_caller_is_used_with_its_holds(features, context):
    models = Models({"AAPL": decision("hold"), "TSLA": decision("hold")})
    records = [
        {"date": "2025-06-10", "action": "increase", "target_cash_amount": 5000, "confidence": 0.8},
        {"date": "2025-06-11", "action": "hold", "target_cash_amount": 5000, "confidence": 0.7},
    ]
    decide_batch_dual_agent(
        features, ctx=context(models), decision_history={"AAPL": records, "TSLA": "as I said"}
    )
    assert models.facts[0]["history"] == {
        "AAPL": "Previous decisions:\n2025-06-10: increase to $5000 (confidence: 0.8)\n"
        "2025-06-11: hold at $5000 (confidence: 0.7)",
        "TSLA": "as I said",
    }


def test_the_last_decisions_are_the_history_where_there_is_no_other(features):
    models = Models({"AAPL": decision("hold"), "TSLA": decision("hold")})
    last = {
        "TSLA": {
            "action": "hold",
            "target_cash_amount": 3000,
            "confidence": 0.6,
            "timestamp": "2025-06-10T09:00",
        }
    }
    decide_batch_dual_agent(features, models.cfg, previous_decisions={**last, "__meta__": {}})
    assert models.facts[0]["history"] == {
        "TSLA": "Previous decisions:\n2025-06-10: hold at $3000 (confidence: 0.6)"
    }


@pytest.mark.parametrize(("mode", "hits"), [("full", 2), ("llm_write_only", 0), ("off", 0)])
def test_the_cache_modes(features, tmp_path, monkeypatch, mode, hits):
    monkeypatch.setenv("QUANTGRAPH_CACHE_DIR", str(tmp_path))
    hold = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models(hold, hold)
    results = [decide_batch_dual_agent(features, models.cfg | {"cache": {"mode": mode}}) for _ in range(2)]
    assert len(models.model.calls) == 4 - hits
    assert [each["__meta__"]["cache_hits"] for each in results] == [0, hits]


def test_a_reply_that_fails_a_check_is_not_served_again(features, tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_CACHE_DIR", str(tmp_path))
    faulty = {"AAPL": decision("increase", 1), "TSLA": decision("hold")}
    good = {"AAPL": decision("hold"), "TSLA": decision("hold")}
    models = Models(faulty, good, good)
    cfg = models.cfg | {"cache": {"mode": "full"}, "agents": {"retry": {"max_attempts": 1}}}
    assert decide_batch_dual_agent(features, cfg)["AAPL"]["hold_reason"] == "fallback"
    again = decide_batch_dual_agent(features, cfg)
    assert again["AAPL"]["hold_reason"] == "model"
    assert again["__meta__"]["cache_hits"] == 1  # the filter's reply


def test_the_filter_alone(features):
    models = Models(need=("TSLA", "FAKE"))
    chosen = filter_stocks_needing_fundamental(features, models.cfg)
    assert chosen["stocks_need_fundamental"] == ["TSLA"]
    assert chosen["reasoning"] == {"TSLA": "why TSLA"}
    for need in (["tsla"], ["$TSLA"]):
        chosen = filter_stocks_needing_fundamental(features, Models(need=need).cfg)
        assert chosen["stocks_need_fundamental"] == ["TSLA"]
    assert filter_stocks_needing_fundamental(features, enable_llm=False)["stocks_need_fundamental"] == [
        "AAPL",
        "TSLA",
    ]


def test_the_decision_alone_with_a_prompt_of_ones_own(features):
    models = Models({"AAPL": decision("increase", 7500), "TSLA": decision("hold")})
    config, meta = LLMConfig(model=models.model, cache={"enabled": False}), {}
    results = _decide_batch_portfolio_dual_agent(
        features, config, "Decide.", LLMClient({"decision": config}), meta, models.cfg
    )
    assert list(results) == ["AAPL", "TSLA"]
    assert models.asked[0][0] == "Decide."
    assert models.facts[0]["symbols"]["AAPL"]["pe_ratio"] == 28.5
    assert meta["calls"] == 1


@pytest.mark.parametrize("given", [[], "AAPL", [item("AAPL"), item("AAPL")], [item("")]])
def test_features_that_are_not_valid(given):
    with pytest.raises(BadOption):
        decide_batch_dual_agent(given, enable_llm=False)


def test_120_symbols_are_decided_in_batches():
    universe = [item(f"S{number:03}") for number in range(120)]
    batches = [universe[first : first + 50] for first in (0, 50, 100)]
    replies = [{each["symbol"]: decision("increase", 500) for each in batch} for batch in batches]
    models = Models(*replies)
    results = decide_batch_dual_agent(universe, models.cfg)
    assert len(models.asked) == 3
    # Each batch has its part of the cash: 50 of 120, 50 of 70 of the 75,000 that are left, all 50,000.
    assert [facts["portfolio_info"]["available_cash"] for facts in models.facts] == [
        41_666.67,
        53_571.43,
        50_000,
    ]
    assert sum(each["cash_change"] for name, each in results.items() if name != "__meta__") == 60_000
    assert json.dumps(results)


@pytest.mark.parametrize(
    "given",
    [
        {"previous_decisions": {"AAPL": 5}},
        {"bars_data": {"AAPL": 5}},
        {"rejected_orders": [5]},
        {"rejected_orders": [{"symbol": ["AAPL"]}]},
        {"rejected_orders": [{"symbol": "AAPL", "context": 5}]},
        {"rejected_orders": [{"symbol": "AAPL", "retry_count": "x"}]},
    ],
)
def test_arguments_of_another_form_are_one_typed_line(features, given):
    (name,) = given
    with pytest.raises(BadOption, match=f"^{name}"):
        decide_batch_dual_agent(features, enable_llm=False, **given)
