"""What the stepwise agent is shown: prompt files, tools, facts, round, results, and its short history."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say, table_beside
from quantgraph._util.values import plain_number
from quantgraph.agents.execution._actions import Action
from quantgraph.agents.loop._facts import OpenFacts
from quantgraph.agents.loop._model_decider import own_prompt, prompt_files
from quantgraph.llm.messages import (
    escape_tags,
    is_too_deep,
    read,
    reply_text,
    reworded,
    to_json,
    without_thoughts,
    wrap,
)
from quantgraph.tools import shortened, tools_catalog

LONGEST_RESULT: Final = 8_000
"""Characters of the last result, as JSON, in the conversation."""

LONGEST_EARLIER_RESULT: Final = 1_200
"""Characters of each result before the last."""

LONGEST_REPLY: Final = 1_500
"""Characters of each reply in the conversation, and of the arguments of its calls."""


def record_of(action: Action, result: Any, timestamp: str) -> dict[str, Any]:
    """Record of a step.

    A call of a tool and an observation have a ``result``; a calculation and a decision only if there is one.
    """
    record: dict[str, Any] = {"step": action.step, "type": action.type, "reasoning": action.reasoning}
    if action.action is not None:
        record |= action.action.model_dump()
    if action.type == "calculation":
        record["intermediate_result"] = action.intermediate_result
    kept = action.result if result is None else result
    if kept is not None or action.type in ("tool_call", "observation"):
        record["result"] = kept
    return {**record, "timestamp": timestamp}


_FOLDER = Path(__file__).resolve().parent / "prompts"
_FILES: Final = {
    "execution_en": "execution_v4.txt",
    "execution_zh": "execution_v4_zh.txt",
    "action_json_en": "action_json_v2.txt",
    "action_json_zh": "action_json_v2_zh.txt",
    "action_native_en": "action_native_v1.txt",
    "action_native_zh": "action_native_v1_zh.txt",
}
_NOT_DONE = "not done: one action a reply"
_EMPTY = "(no text)"


@cache
def prompt_texts() -> Mapping[str, str]:
    """The prompts by name: what is decided, and the form of an action. A new text is a new version."""
    return prompt_files(_FOLDER, _FILES)


def system_prompts(own: str | None, calling: str, listed: Collection[BaseTool]) -> dict[str, str]:
    """The prompts before the facts: what is decided, the form of an action, and the tools that are listed.

    A file of the caller's, or a shipped one by its name, says in both languages what is decided.
    """
    texts, found = prompt_texts(), {}
    is_shipped = own in (_FILES["execution_en"], _FILES["execution_zh"])
    decided = own and own_prompt(str(_FOLDER / own) if is_shipped else own)
    tools = "\n".join(["available_tools:", *map(tool_line, listed)]) if listed else ""
    for language in get_args(Language):
        parts = [decided or texts[f"execution_{language}"], texts[f"action_{calling}_{language}"], tools]
        found[f"execution_{language}"] = "\n\n".join(part.rstrip() for part in parts if part)
    return found


def status_of(table: OpenFacts, symbol: str) -> dict[str, Any]:
    """The facts of an open for one symbol, without those that are not known; ratios in percent."""
    each, account = table.symbols[symbol], table.account
    sellable = each.sellable if each.sellable != each.held else None
    known = {
        "sellable": sellable,
        "average_cost": each.average_cost,
        "weight": _percent(each.weight) if each.held else None,
        "past_returns": {str(count): _percent(value) for count, value in each.returns.items()},
        "volatility_20": _percent(each.volatility),
        "volume_ratio": _percent(each.volume_ratio, 2),
        "place_in_52_weeks": _percent(each.range_place, 0),
        "price_earnings": _percent(each.price_earnings),
        "price_earnings_of": each.price_earnings_day,
        "dividend_yield": _percent(each.dividend_yield, 2),
    }
    since = {"account": _percent(account.own_return, 2), "equal_parts": _percent(account.equal_parts, 2)}
    status = {
        "last_close": each.last_close,
        "open": each.open,
        "shares": each.held,
        "cash": account.cash,
        "total_assets": account.value,
        **{name: value for name, value in known.items() if value is not None},
        **({"since_start": since} if account.started else {}),
    }
    named = {"symbol": symbol, **({"name": each.name} if each.name else {})}
    return {**named, "session": f"{table.session:%Y-%m-%d}", "runtime_status": _rounded(status)}


def _percent(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _rounded(value: Any) -> Any:
    """Numbers of facts: prices with six digits at most, ratios in percent with one decimal."""
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return short_number(float(value) if isinstance(value, Decimal) else value)


_TOOL_LINES: Final = {name: line for name, *line in table_beside(__file__, "tool_lines.csv")}
"""The parameters that the prompt names of each tool of the catalog, and what it does."""
_KEPT_OF_FIELD = ("type", "enum", "items", "minimum", "maximum")


def bound_tool(tool: BaseTool) -> BaseTool | dict[str, Any]:
    """A tool as it is bound to a model: one of the catalog in few words, one of the caller's as it is."""
    if tools_catalog.get(tool.name) is not tool:
        return tool
    parameters = convert_to_openai_tool(tool)["function"]["parameters"]
    fields = {
        name: {key: field[key] for key in _KEPT_OF_FIELD if key in field}
        for name, whole in parameters["properties"].items()
        for field in [whole.get("anyOf", [whole])[0]]
    }
    kept = {"type": "object", "properties": fields, "required": parameters["required"]}
    function = {"name": tool.name, "description": _TOOL_LINES[tool.name][1], "parameters": kept}
    return {"type": "function", "function": function}


def tool_line(tool: BaseTool) -> str:
    """A tool in a line of the prompt: name, parameters, and what it does."""
    if tools_catalog.get(tool.name) is tool:
        parameters, does = _TOOL_LINES[tool.name]
    else:
        function = convert_to_openai_tool(tool)["function"]
        schema, does = function.get("parameters", {}), " ".join(function["description"].split())
        required = schema.get("required", [])
        parameters = ", ".join(
            name if name in required else f"{name}={json.dumps(field.get('default'), ensure_ascii=False)}"
            for name, field in schema.get("properties", {}).items()
        )
    return f"- {tool.name}({parameters}): {does}"


def first_messages(
    facts: Mapping[str, Any], prompt: str, *, rounds: int, language: Language = "en"
) -> list[AnyMessage]:
    """The conversation up to the first round."""
    part = wrap("execution_facts", canonical_json(dict(facts), sort_keys=False))
    return [SystemMessage(f"{prompt}\n\n{part}"), step_message(1, rounds, language)]


def step_message(step: int, rounds: int, language: Language = "en") -> HumanMessage:
    """The question for the action of a round."""
    return HumanMessage(_question(step, rounds, language))


def observed(
    reply: AIMessage, action: Action, result: Any, *, next_step: int, rounds: int, language: Language = "en"
) -> list[AnyMessage]:
    """A reply as its action, and the result with the question of the next round.

    The result is data: it stands inside ``observation``, and no text in it can end that part.
    """
    observation = {"step": action.step, "result": shortened(as_table(result), LONGEST_RESULT)}
    answer = f"{_observation(observation)}\n{_question(next_step, rounds, language)}"
    text = without_thoughts(reply_text(reply.content))[:LONGEST_REPLY]
    if not reply.tool_calls:
        kept = {
            name: value
            for name, value in action.model_dump(exclude={"step"}).items()
            if value not in (None, "")
        }
        text = canonical_json(shortened(kept, LONGEST_REPLY), sort_keys=False)
    return _answered(reply, text, answer, action.step)


def as_table(result: Any) -> Any:
    """A list of dated rows as columns and rows, without the time that the date tells; else the result.

    >>> as_table([{"time": 1735776000, "date": "2025-01-02", "close": 3.70000012, "volume": 71752652.0}])
    {'columns': ['date', 'close', 'volume'], 'rows': [['2025-01-02', 3.7, 71752652]]}
    """
    if not isinstance(result, list) or not result:
        return result
    if not all(isinstance(row, Mapping) and "date" in row for row in result):
        return result
    columns = [name for name in dict.fromkeys(name for row in result for name in row) if name != "time"]
    return {"columns": columns, "rows": [[short_number(row.get(name)) for name in columns] for row in result]}


def short_number(value: Any) -> Any:
    """A float with six digits, or to the whole number; any other value as it is."""
    if not isinstance(value, float):
        return value
    return plain_number(round(value) if abs(value) >= 100_000 else float(f"{value:.6g}"))


def with_short_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A conversation whose results are all short, without the questions behind them."""
    return [_short_answer(each) for each in messages]


def _short_answer(message: AnyMessage) -> AnyMessage:
    part = read("observation", message.text)
    if part is None or not isinstance(message, HumanMessage | ToolMessage):
        return message
    observation = json.loads(part)
    short = shortened(_earlier(observation["result"]), LONGEST_EARLIER_RESULT)
    return message.model_copy(update={"content": _observation({**observation, "result": short})})


def _earlier(result: Any) -> Any:
    """A table of bars by its closes and dates alone; any other result."""
    dates, closes = (_cells(result, name) for name in ("date", "close"))
    if not dates or not closes:
        return result
    return {"dates": f"{dates[0]} to {dates[-1]}", "close": closes}


def column_of(result: Any, name: str) -> list[Any]:
    """A column of a result in the conversation, in full or in short; empty if it has none."""
    found = result.get(name) if isinstance(result, Mapping) else None
    return _cells(result, name) or (found if isinstance(found, list) else [])


def _cells(table: Any, name: str) -> list[Any]:
    """A column of a table of :func:`as_table`; empty if it is not one, or has no such column."""
    columns, rows = (table.get(key) if isinstance(table, Mapping) else None for key in ("columns", "rows"))
    if not isinstance(columns, list) or not isinstance(rows, list) or name not in columns:
        return []
    place = columns.index(name)
    return [row[place] for row in rows if isinstance(row, list) and len(row) == len(columns)]


def sent_back(
    reply: AIMessage, fault: str, *, step: int, rounds: int, is_last: bool = False, language: Language = "en"
) -> list[AnyMessage]:
    """A reply that is no action, what is wrong with it, and the question once more."""
    fault_text = say(
        language,
        zh=f"上一个回复不能用：{fault}。请重新回复，只给出一个操作。",
        en=f"Your last reply could not be used: {fault}. Reply again, with one action and nothing else.",
    )
    if is_last:
        fault_text += say(
            language, zh="再有一个不能用的回复，就持有。", en=" Another one like it ends in a hold."
        )
    text = without_thoughts(reply_text(reply.content))
    text = text if len(text) <= LONGEST_REPLY else f"{text[:LONGEST_REPLY]}…"
    return _answered(reply, text, f"{escape_tags(fault_text)}\n{_question(step, rounds, language)}", step)


def _observation(observation: Mapping[str, Any]) -> str:
    return wrap("observation", canonical_json(observation, sort_keys=False))


def _question(step: int, rounds: int, language: Language) -> str:
    part = wrap("execution_step", canonical_json({"current_step": step, "rounds": rounds}))
    return part + (
        say(language, zh="这是最后一轮：请做出决策。", en="The last round: decide.") if step >= rounds else ""
    )


def _answered(reply: AIMessage, text: str, answer: str, step: int) -> list[AnyMessage]:
    """Return a reply and its answer: a message, or where it made calls, an answer to each."""
    clean = escape_tags(text.encode("utf-8", "replace").decode())
    if reply.invalid_tool_calls or not reply.tool_calls:
        return [reworded(reply, clean or _EMPTY), HumanMessage(answer)]
    ids = [call["id"] or f"call_{step}_{place}" for place, call in enumerate(reply.tool_calls)]
    calls = [
        {**call, "id": name, "args": _short_args(call["args"])}
        for call, name in zip(reply.tool_calls, ids, strict=True)
    ]
    return [
        reply.model_copy(update={"content": clean, "tool_calls": calls}),
        ToolMessage(answer, tool_call_id=ids[0]),
        *(ToolMessage(_NOT_DONE, tool_call_id=name) for name in ids[1:]),
    ]


def _short_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call as plain JSON."""
    short = shortened("…" if is_too_deep(args) else to_json(args), LONGEST_REPLY)
    return short if isinstance(short, dict) else {"…": short}
