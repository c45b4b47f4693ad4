"""The tools of research over MCP: what each takes and answers, and how a client reads of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import WithJsonSchema

from quantgraph._util.files import MAX_TEXT_LENGTH, check_sentence, check_text
from quantgraph._util.values import faults_of
from quantgraph.errors import BadOption
from quantgraph.integrations.mcp._research_answers import (
    MOST_ROWS,
    AuditAnswer,
    ComparisonAnswer,
    ReportAnswer,
    ResultAnswer,
    RunAnswer,
    StatusAnswer,
    TradesAnswer,
)
from quantgraph.llm.messages import typed_args
from quantgraph.rules import Rule
from quantgraph.subgraphs.signal import plain_plan
from quantgraph.tools.mcp import ServedTool

MOST_CODE: Final = 200_000
"""Bytes of a client's code."""
SKILL: Final = "quantgraph://skill"
"""Address of the text that teaches a client."""
_MOST_RUNS = 8
_ID, _DATE = 64, 10

INSTRUCTIONS: Final = (
    "Research trading strategies: a person's sentence becomes a signal that is proved to use no future, is "
    "held against the words, and trades in a simulated account. Begin with understand. Where the sentence "
    "is not read whole, write the signal's code yourself, audit it, and run it with the sentence. Each "
    "answer has next. Never guess the answer to a question: ask the person. Say what cannot be done, was "
    "not done, not compared or assumed; to say that nothing can be done is a good answer."
)
_CODE = """\
Code is pandas, whole in one text, and runs sealed: pd, np, snapshot, GLOBAL_DATA_STATE, and import \
talib; no files, no network.
snapshot["ohlcv"] has frames open, high, low, close, vol, amount, as traded, and adj_factor if the data \
have it: multiply prices by it where a window may hold a split; snapshot["indicators"] daily values such \
as pe, pb, total_mv, turnover_rate; snapshot["index"]["close"] levels by code: float64, sessions x ts_code, \
NaN while a stock does not trade, read-only. Write one frame like close: 1 buys, -1 sells, 0 changes \
nothing, NaN is unknown.
Row t may use rows up to t alone, and trades at the next open: no shift(-n), bfill, centred window, \
statistic of the whole sample. Averages run over each stock's own sessions. "Crosses above" is an event, \
"above" a state. Leave stops, sizes, schedules and holding times to the plan. Name no dates. For \
example, buy when the close crosses above its 20-day average, sell when it is below:
close = snapshot["ohlcv"]["close"]
ma = close.apply(lambda s: s.dropna().rolling(20).mean().reindex(s.index))
buy = (close > ma) & (close.shift(1) <= ma.shift(1))
signal = (close * 0).mask(buy, 1.0).mask(close < ma, -1.0).where(ma.notna())
GLOBAL_DATA_STATE.update("signal", {"cross_ma20": signal})"""


def _joined(value: Any) -> Any:
    parts = value.split(",") if isinstance(value, str) else value
    return ",".join(str(part).strip() for part in parts) if isinstance(parts, list) else value


_TEXT = {"type": "string"}
_Codes = Annotated[
    str, BeforeValidator(_joined), WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]})
]


class _Args(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Understand(_Args):
    sentence: str = Field(
        "",
        max_length=MAX_TEXT_LENGTH,
        description="the strategy in the person's own words, Chinese or English",
    )
    symbols: _Codes = Field(
        "",
        max_length=MAX_TEXT_LENGTH,
        description="codes, names or an index code, joined by commas; default: the sentence's",
    )
    start: str = Field("", max_length=_DATE, description="first date, YYYYMMDD; default: the sentence's")
    end: str = Field("", max_length=_DATE, description="last date, YYYYMMDD; default: the sentence's")
    plan: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "words of the trade plan that the sentence does not say, as an object; they win over its own: "
            "stop_loss 0.08, take_profit, trailing_stop, max_holding 20 (sessions), size "
            '{"percent": 0.3} or {"cash": 20000} (default: the account over max_positions), max_positions '
            "(default: all that are traded, at most 10), trade_on week_start, month_start, quarter_start or "
            "n sessions (sales by the signal wait for it, too, unless exit_on is every; 1 undoes the "
            'sentence\'s), no_entry_on {"weekdays": [5]}, cooldown, min_holding 3 (sessions), rebalance as '
            'trade_on, accumulate {"amount": 5000}, rank "-ohlcv.amount" (lowest first), cash, commission, '
            'slippage_bps, benchmark, reentry "any" (default: after a stop only on a new signal)'
        ),
    )
    request_id: str = Field(
        "",
        max_length=_ID,
        description="a text of your choice; a call repeated with it finds its first run again",
    )
    run: str = Field("", max_length=_ID, description="a run to go on with, in place of all above")
    question: str = Field("", max_length=_ID, description="with run: id of the question that is answered")
    answer: str = Field(
        "",
        max_length=MAX_TEXT_LENGTH,
        description="with question: an option, its number, or words; a rule whole, with its stops and size",
    )


class _Run(_Understand):
    start: str = Field(
        "", max_length=_DATE, description="first date; default: the sentence's, with code else the data's"
    )
    end: str = Field(
        "", max_length=_DATE, description="last date; default: the sentence's, with code else the data's"
    )
    plan: dict[str, Any] = Field(default_factory=dict, description="as understand takes it")
    code: str = Field(
        "", max_length=MOST_CODE, description="the signal's code, see audit; best with the sentence"
    )
    rule: dict[Literal["entry", "exit"], str] = Field(
        default_factory=dict,
        description='a rule in place of code: {"entry": "cross_up(sma(close, 5), sma(close, 20))", '
        '"exit": "rsi() > 70"}; needs no proof. A refusal says what the language has',
    )
    stop: bool = Field(False, description="with run: true stops it at its next step; it can be gone on with")


class _Audit(_Args):
    code: str = Field(max_length=MOST_CODE, description="the signal's code")
    sentence: str = Field(
        "",
        alias="said",
        max_length=MAX_TEXT_LENGTH,
        description="the person's whole sentence, with which the code's positions are compared",
    )
    symbols: _Codes = Field(
        "", max_length=MAX_TEXT_LENGTH, description="codes, joined by commas; default: the sentence's"
    )
    start: str = Field(
        "", max_length=_DATE, description="first date, YYYYMMDD; default: the sentence's, else the data's"
    )
    end: str = Field(
        "", max_length=_DATE, description="last date, YYYYMMDD; default: the sentence's, else the data's"
    )


class _OfRun(_Args):
    run: str = Field(max_length=_ID, description="a run")


class _Status(_Args):
    run: str = Field("", max_length=_ID, description="a run; without it all are listed, the latest first")


class _Trades(_OfRun):
    offset: int = Field(0, ge=0, description="how many fills to leave out, from the first")
    limit: int = Field(50, ge=1, le=MOST_ROWS, description=f"how many fills to return, at most {MOST_ROWS}")


class _Compare(_Args):
    runs: list[Annotated[str, Field(max_length=_ID)]] = Field(
        min_length=2, max_length=_MOST_RUNS, description=f"2 to {_MOST_RUNS} runs that are done"
    )


class _Report(_Args):
    run: str = Field("", max_length=_ID, description="a run, whose page is written")
    script: bool = Field(
        False, description="in place of run: true writes all that was done here as one Python script"
    )


TOOLS: Final[Mapping[str, tuple[type[_Args], Any, bool, str]]] = {
    "understand": (
        _Understand,
        RunAnswer,
        False,
        "Read a person's sentence about a strategy by rules, before anything trades. The answer is what was "
        "understood, or a question with options, which a further call answers by run, question and answer. "
        "Call it first.",
    ),
    "audit": (
        _Audit,
        AuditAnswer,
        True,
        "Prove that a signal's code uses no future, or show a cell and a line where it does; with said "
        "also where it does something else than the sentence. Nothing trades.\n" + _CODE,
    ),
    "run": (
        _Run,
        RunAnswer,
        False,
        "Trade in a simulated account: what understand understood (run), or your code with the person's "
        "sentence (code, sentence), or a sentence at once. Code is sealed, proved, and held against the "
        "sentence, whose symbols, dates and plan count; code that uses the future is refused with a cell. A "
        "long run answers working: call status.",
    ),
    "status": (
        _Status,
        StatusAnswer,
        True,
        "How a run stands: working, asks, understood, done, ended, stopped or refused.",
    ),
    "result": (
        _OfRun,
        ResultAnswer,
        True,
        "The result of a run: what was understood, each clause and what it became, notes, defaults taken, "
        "numbers of the account and of buy and hold.",
    ),
    "trades": (
        _Trades,
        TradesAnswer,
        True,
        "The fills of a run, each with its reason: signal 1 or -1 is that of the session before, or the last "
        "since the schedule's time before. Sales have profit and sessions held.",
    ),
    "compare": (
        _Compare,
        ComparisonAnswer,
        True,
        "Numbers of runs side by side, and what is different in their requests.",
    ),
    "report": (
        _Report,
        ReportAnswer,
        False,
        "Write the page of a run (HTML: curve, trades, proof, sentence), or all that was done here as one "
        "Python script, which gives the same ledgers without an assistant.",
    ),
}
"""By name: what a tool takes, what it answers, whether it only reads, and what it does."""


def research_tool(name: str) -> ServedTool:
    """Return one of :data:`TOOLS`."""
    args, answers, reads, text = TOOLS[name]
    schema = args.model_json_schema()
    return ServedTool(
        name=name,
        description=text,
        parameters={"type": "object", "required": [], **{key: schema[key] for key in _KEPT if key in schema}},
        answers=TypeAdapter(answers).json_schema(),
        reads=reads,
        destroys=False,
        repeatable=reads,
    )


_KEPT = ("properties", "required", "additionalProperties")


def checked_args(name: str, args: Mapping[str, Any]) -> Any:
    """The arguments of a call, checked.

    Raises
    ------
    BadOption
        If one is unknown or not valid.
    """
    model = TOOLS[name][0]
    try:
        checked = model.model_validate(typed_args(args, model.model_json_schema()))
    except ValidationError as error:
        fault, found = faults_of(error, model)[0], error.errors(include_url=False, include_input=False)[0]
        long = found["type"] == "string_too_long"
        most = (
            f"{fault.place} has more than {found['ctx']['max_length']:,} characters" if long else fault.line
        )
        raise BadOption(f"{name}: {most}", parameter=fault.place) from None
    if isinstance(checked, _Understand):
        _check_plan(checked.plan)
        checked.plan = plain_plan(checked.plan)
    if isinstance(checked, _Run) and checked.rule:  # its cell is known as that of a rule
        rule, checked.rule = Rule.read(checked.rule.get("entry", ""), checked.rule.get("exit")), {}
        checked.code = rule.cell("rule")
    for key, value in checked.model_dump(
        exclude={"plan", "offset", "limit", "stop", "script", "rule"}
    ).items():
        for text in value if isinstance(value, list) else [value]:
            check_text(text, key)
    if len(getattr(checked, "code", "").encode()) > MOST_CODE:
        raise BadOption(f"code has more than {MOST_CODE:,} bytes, and no more are read", parameter="code")
    return checked


def _check_plan(plan: Mapping[str, Any]) -> None:
    """Check that a plan's words are JSON of a sentence's length at most."""
    try:
        text = json.dumps(plan, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise BadOption("plan is no JSON, or is nested too deeply", parameter="plan") from None
    check_sentence(text, "plan")
    for word, value in plan.items():
        if value is None:
            raise BadOption(f"plan.{word} is null; leave the word out", parameter="plan")
