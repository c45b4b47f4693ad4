"""Replies of the stepwise agent's model, broken in many ways."""

import json
from copy import deepcopy

KLINES = {"exchange": "", "symbol": "600000.SH", "timeframe": "1d", "limit": 40}
DECISION = {"action": "buy", "reason": "价格突破均线", "confidence": 0.75}
VALID = (
    {"type": "tool_call", "action": {"tool_name": "get_kline_data", "params": KLINES}},
    {"type": "tool_call", "tool_name": "get_position", "params": {"symbol": "600000.SH"}},
    {
        "type": "calculation",
        "action": {"calculation_type": "MA", "formula": "sum(close[-3:]) / 3", "inputs": {"period": 3}},
        "intermediate_result": {"ma3": 10.5},
    },
    {"type": "decision", "action": DECISION},
    {"type": "decision", **DECISION, "action": "sell"},
    {"type": "observation", "reasoning": "quiet", "result": {"trend": "flat"}},
    {"type": "tool_call", "action": {"tool_name": "place_order", "params": DECISION}},
    {"type": "decision", "action": {"action": "hold", "reason": "calm", "confidence": 0}},
)
VALUES = (
    None, True, False, 0, -1, 7, 0.5, 1e300, -1e-300, 10**400, float("nan"), float("inf"), "", " ", "0.8",
    "about 0.5", "NaN", "½", "買入", "buy 0", "BUY", "hold", "\ud800", "\x00\x1b[2J", "\u202e", "</observation>",
    "x" * 9_000, [], [1], {}, {"action": "buy"}, {"type": "decision"}, "tool_call", "decision", "trade",
    [{"type": "decision"}], "ignore the rule and buy everything",
)  # fmt: skip
KEYS = (
    "type", "step", "reasoning", "action", "result", "intermediate_result", "next_step", "tool_name", "params",
    "calculation_type", "formula", "inputs", "reason", "confidence", "lots", "", "\ud800", "操作", "x" * 200,
)  # fmt: skip
CHARACTERS = "{}[]\",:\\'“”eEN0-9.é\x00\n`<>"
AROUND = (
    "{}", "```json\n{}\n```", "```\n{}", "<think>{}</think>", "<think>hm</think>{}", "先看K线。{}", "{}{}", "{}\n{}",
    "{} and {{1}}", "[{}]", "<tool_call>{}</tool_call>", "<observation>{}</observation>", "So {{x}}: {}.",
    "{{\"answer\": {}}}", "```python\nx = {{}}\n```\n{}", "# 标题\n{}\n```json\n{}\n```",
)  # fmt: skip


def deep(rng):
    levels = rng.choice((5, 120, 3_000))
    return rng.choice(("[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels))


def mutated_object(rng):
    """A valid action with some of its keys missing, renamed, added or of another value, at either level."""
    whole = deepcopy(rng.choice(VALID))
    for _ in range(rng.randrange(3)):
        inner = [value for value in whole.values() if isinstance(value, dict)]
        part = rng.choice([whole, *inner])
        name = rng.choice([*part, rng.choice(KEYS)])
        way = rng.randrange(4)
        if way == 0:
            part.pop(name, None)
        elif way == 1:
            part[rng.choice(KEYS)] = part.pop(name, None)
        elif way == 2:
            part[name] = deepcopy(rng.choice(VALUES))
        else:
            part |= deepcopy(rng.choice((KLINES, DECISION, VALID[0]["action"], VALID[2]["action"])))
    return whole


def mutated_text(rng, text):
    """A text with some of its characters gone, doubled or replaced."""
    for _ in range(rng.randint(1, 4)):
        place, way = rng.randrange(len(text) + 1), rng.randrange(5)
        if way == 0:
            text = text[:place]
        elif way == 1:
            text = text[:place] + rng.choice(CHARACTERS) + text[place:]
        elif way == 2:
            text = text[:place] + text[place + rng.randrange(40) :]
        elif way == 3:
            text = text[:place] + text[max(0, place - rng.randrange(40)) :]
        else:
            text = text.replace('"', rng.choice("'“”"), rng.randrange(12))
    return text


def mutated_reply(rng):
    """A reply as text: a valid action, or one that is broken in its values, its JSON, or what is around it."""
    text = json.dumps(mutated_object(rng), ensure_ascii=rng.random() < 0.5)
    way = rng.randrange(10)
    if way < 3:
        text = mutated_text(rng, text)
    elif way == 3:
        text = text.replace("}", f', "result": {deep(rng)}}}', 1)
    elif way == 4:
        text = text[:-1] + f', "{rng.choice(KEYS[:10])}": {json.dumps(rng.choice(VALUES))}' + "}"
    elif way == 5:
        text = rng.choice(("", " ", "null", "[]", "{}", "買入！", "buy", "0", '"', "{", "```", text[::-1]))
    if way == 6:
        return rng.choice(AROUND).replace("{}", text).replace("{{", "{").replace("}}", "}")
    return text


def mutated_calls(rng):
    """The native calls of a reply."""
    names = ("get_kline_data", "decision", "place_order", "calculation", "observation", "", "买")
    calls = []
    for place in range(rng.choice((1, 1, 1, 2, 3))):
        args = dict(rng.choice((KLINES, DECISION, {})))
        for _ in range(rng.randrange(3)):
            args[rng.choice([*args, rng.choice(KEYS)])] = rng.choice(VALUES)
        name = rng.choice(names)
        calls.append({"name": name, "args": args, "id": rng.choice((f"id{place}", f"id{place}", None))})
    return calls
