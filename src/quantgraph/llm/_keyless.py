"""One turn of the planner: find the part of the prompt that drives it, and answer or call a tool.

The keyless planner as a chat model.

It is not a language model: it reads a documented family of sentences by fixed rules (see
``docs/keyless-planner.md``), says so when asked, and asks a question about any other sentence. The same
messages give the same answer, down to the ids of tool calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.packages import entries
from quantgraph._util.texts import Language, Note, language_of
from quantgraph._util.values import json_object
from quantgraph.errors import BadWindow, QuantGraphError
from quantgraph.llm import _keyless_replies as replies
from quantgraph.llm._keyless_replies import (
    CODE_TOOL,
    Tool,
    fill_arguments,
    malformed_date_answer,
    reflection_answer,
    request_facts,
    tool_parameters,
)
from quantgraph.llm.messages import _json as tags
from quantgraph.sentences import (
    PLAN_KEYS,
    ClauseNote,
    ParsedRequest,
    RequestContext,
    Watched,
    read_request,
    watched_of,
    without_names,
    write_code,
)
from quantgraph.sentences.phrases import changed_request, with_answers

BAR_TOOL = "tushare_daily_bar"
INDICATOR_TOOL = "tushare_daily_basic"
KeylessReply = Callable[[Sequence[BaseMessage], str], str | Mapping[str, Any] | AIMessage]
"""Replies to a conversation and the part of the prompt that it answers: with a text, an object as JSON, or a
message of at most one tool call."""


@dataclass(frozen=True, kw_only=True)
class PlannerCall:
    """A tool call; its id is a hash of its content."""

    name: str
    args: dict[str, Any]

    @property
    def id(self) -> str:
        """Hash of name and arguments."""
        return "call_" + content_hash(canonical_json([self.name, self.args]), size=12)


@dataclass(frozen=True, kw_only=True)
class PlannerTurn:
    """A text, or one tool call."""

    text: str = ""
    call: PlannerCall | None = None


@dataclass(frozen=True, kw_only=True)
class _Prompt:
    """One call of the planner: the messages, the place of the driving message, and the tools."""

    messages: Sequence[BaseMessage]
    tools: Mapping[str, Tool]
    forced: bool
    begin: int

    def answer_to(self, call: PlannerCall, *, newest: bool = False) -> ToolMessage | None:
        """The tool's answer to this call. A server in between may have changed the call's id."""
        places = [place for place, message in enumerate(self.messages) if isinstance(message, HumanMessage)]
        since = self.messages[(max(places, default=self.begin) if newest else self.begin) + 1 :]
        asked = {
            made["id"]
            for message in since
            if isinstance(message, AIMessage)
            for made in message.tool_calls
            if (made["name"], made["args"]) == (call.name, call.args)
        }
        for message in reversed(since):
            if isinstance(message, ToolMessage) and message.tool_call_id in {call.id, *asked}:
                return message
        return None

    def part(self, name: tags.Tag) -> str | None:
        """The newest part of a name in any message."""
        for message in reversed(self.messages):
            if isinstance(message, HumanMessage | SystemMessage):
                found = tags.read(name, message.text)
                if found is not None:
                    return found
        return None


def _day(value: object) -> str | None:
    text = re.sub(r"\D", "", str(value or ""))  # "2024-01-02"
    return text if re.fullmatch(r"\d{8}", text) else None  # "20240102"


def _context(prompt: _Prompt) -> tuple[RequestContext, dict[str, Any]]:
    facts = json_object(prompt.part("context"))
    names = facts.get("names")
    pairs = names if isinstance(names, dict) else {}
    examples = facts.get("examples")
    executes = facts.get("executes")
    context = RequestContext(
        first_session=_day(facts.get("first_session")),
        last_session=_day(facts.get("last_session")),
        names={str(name): str(code) for name, code in pairs.items()},
        examples=tuple(map(str, examples)) if isinstance(examples, list) else (),
        executes=frozenset(map(str, executes)) if isinstance(executes, list) else PLAN_KEYS,
    )
    return context, facts


def _code_block(value: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```"


def _as_schema(prompt: _Prompt, value: dict[str, Any]) -> PlannerTurn:
    """The object as a call of a bound schema that it fits, else as fenced JSON."""
    for name, tool in prompt.tools.items():
        known = tool_parameters(tool)
        if known and set(known) <= set(value):
            call = PlannerCall(name=name, args={key: value[key] for key in known})
            if prompt.answer_to(call) is None:
                return PlannerTurn(call=call)
    return PlannerTurn(text=_code_block(value))


def _answers(prompt: _Prompt) -> list[tuple[str, str]]:
    """The questions of this request with the user's answers."""
    try:
        answers = json.loads(prompt.part("answers") or "[]")
        return [(str(each["question"]), str(each["answer"])) for each in answers]
    except (ValueError, LookupError, TypeError):
        return []


def _reflect(prompt: _Prompt, text: str) -> PlannerTurn:
    context, facts = _context(prompt)
    text = without_names(text, _codes(facts.get("decider"))).lstrip(" ,，、;；:：")
    last = json_object(prompt.part("last_request"))
    text = with_answers(changed_request(last, text, context), _answers(prompt), context)
    errors = prompt.part("errors") or ""
    try:
        request = _read(text, context, context.examples)
    except BadWindow as error:
        return _as_schema(prompt, malformed_date_answer(error, text, context, facts, errors))
    return _as_schema(prompt, reflection_answer(request, text, context, facts, errors))


_SETTLED = ("600000.SH",)
"""Stands for the codes where a rule is coded: the reading has settled them."""


def _read(text: str, context: RequestContext, codes: Sequence[str]) -> ParsedRequest:
    """Read a request; the word that begins it is the name of the only code of the data, if it is unparsed."""
    request = read_request(text, context)
    if len(codes) != 1 or len(request.unparsed) != 1 or request.symbols:
        return request
    (word,), (code,) = request.unparsed, codes
    if not re.match(rf"\s*{re.escape(word)}\s*[,，:：、]", text):  # "茅台，20日均线"
        return request
    read = read_request(text, replace(context, names={**context.names, word: code}))
    became = Note(zh=f"{code}，数据里唯一的证券", en=f"{code}, the only symbol of the data")
    return replace(read, clauses=(*read.clauses, ClauseNote(words=word, became=became, status="default")))


def _codes_of(kind: type[QuantGraphError]) -> set[str]:
    return {kind.code}.union(*(_codes_of(child) for child in kind.__subclasses__()))


def _has_failed(message: ToolMessage) -> bool:
    """Whether a tool failed: by the message's status, or by its error code if the wire format has no status."""
    return message.status == "error" or message.text.split(":", 1)[0].strip() in _codes_of(QuantGraphError)


def _fetch(prompt: _Prompt, text: str) -> PlannerTurn:
    options = json_object(text)
    symbols = options.get("ts_code") or ""
    codes = ",".join(map(str, symbols)) if isinstance(symbols, list) else str(symbols)
    start, end = str(options.get("start_date") or ""), str(options.get("end_date") or "")
    fields = [str(name) for name in options.get("required_indicators") or []]
    language = _prompt_language(prompt, options)
    window = {"ts_code": codes, "start_date": start, "end_date": end}
    calls = [PlannerCall(name=BAR_TOOL, args=window)]
    if fields:
        calls.append(PlannerCall(name=INDICATOR_TOOL, args={**window, "fields": ",".join(fields)}))
    for call in calls:
        answer = prompt.answer_to(call)
        if answer is None and call.name not in prompt.tools:
            return PlannerTurn(
                text=replies.fetch_failure(call.name, "not_configured: the tool is not bound.", language)
            )
        if answer is None:
            return PlannerTurn(call=call)
        if _has_failed(answer):
            return PlannerTurn(text=replies.fetch_failure(call.name, answer.text, language))
    return PlannerTurn(text=replies.fetched(codes, start, end, fields, language))


def _prompt_language(prompt: _Prompt, options: Mapping[str, Any]) -> Language:
    """The language that a prompt names, else the user's newest text's, else the prompt's."""
    named = options.get("language")
    if named in ("zh", "en"):
        return cast(Language, named)
    for name in ("user_request", "strategy"):
        text = prompt.part(name)
        if text:
            return language_of(text)
    return language_of(prompt.messages[prompt.begin].text) if prompt.messages else "en"


def _codes(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _find_watched(prompt: _Prompt, request: ParsedRequest) -> Watched | None:
    """The watched security: of the understanding in the prompt if it has one, else as the strategy says."""
    understood = json_object(prompt.part("understanding"))
    watch, trade = _codes(understood.get("watch")), _codes(understood.get("trade"))
    if trade:
        return watched_of(watch or trade, trade, request.strategy)
    return request.watched


def _code(prompt: _Prompt, text: str) -> PlannerTurn:
    context, _ = _context(prompt)
    try:
        request = _read(text, context, _SETTLED)
    except BadWindow as error:
        return PlannerTurn(text=replies.strategy_failure(error.line, language_of(text)))
    if request.strategy is None:
        return PlannerTurn(text=replies.strategy_question(request.unparsed or (text,), request.language))
    code = write_code(request.strategy, _find_watched(prompt, request))
    call = PlannerCall(name=CODE_TOOL, args={"query": code.source})
    answer = prompt.answer_to(call, newest=True)  # code that failed is not mended: it fails again
    if answer is None:
        if CODE_TOOL not in prompt.tools:
            return PlannerTurn(text=f"```python\n{code.source}```")
        return PlannerTurn(call=call)
    if _has_failed(answer) or f"signal {code.name}:" not in answer.text:
        return PlannerTurn(text=replies.strategy_failure(answer.text, request.language))
    return PlannerTurn(text=replies.stored(code.name, replies.rule_text(request), request.language))


def _clarify(prompt: _Prompt, text: str) -> PlannerTurn:
    context, _ = _context(prompt)
    options = json_object(text)
    reason = str(options.get("reason") or "")
    language = options.get("language")
    language_ = cast(Language, language) if language in ("zh", "en") else language_of(reason)
    number = options.get("round")
    round_ = number if isinstance(number, int) else 1
    return PlannerTurn(
        text=replies.clarification(
            reason, str(options.get("kind") or ""), round_, language_, context.examples
        )
    )


def _validate(prompt: _Prompt, text: str) -> PlannerTurn:  # noqa: ARG001 - handlers share a signature
    verdict: dict[str, Any] = {
        "validation_passed": True,
        "checks_performed": [],
        "issues_found": [],
        "data_summary": {},
        "recommendations": [],
    }
    return _as_schema(prompt, verdict)


def _plain(prompt: _Prompt) -> PlannerTurn:
    """A prompt without tags: call the bound tools from the user's newest text, else answer."""
    texts = [message.text for message in prompt.messages if isinstance(message, HumanMessage)]
    text = texts[-1] if texts else ""
    context, _ = _context(prompt)
    try:
        request = read_request(text, context)
    except BadWindow as error:
        return PlannerTurn(text=error.line)
    facts = request_facts(request, text, context.examples)
    answers: list[str] = []
    for name, tool in prompt.tools.items():
        if name == INDICATOR_TOOL and not request.fields:
            continue
        args = fill_arguments(tool, facts, prompt.forced)
        if args is None:
            continue
        call = PlannerCall(name=name, args=args)
        answer = prompt.answer_to(call)
        if answer is None:
            return PlannerTurn(call=call)
        if _has_failed(answer):
            return PlannerTurn(text=replies.fetch_failure(name, answer.text, request.language))
        answers.append(answer.text)
    if answers:
        return PlannerTurn(text="\n".join(answers))
    if not request.symbols and request.intent == "unclear":
        return PlannerTurn(text=replies.introduction(request.language))
    ask = replies.next_question(request, context.examples) or ""
    return PlannerTurn(text=f"{replies.analysis(request, '')} {ask}".strip())


_HANDLERS = {
    "clarify": _clarify,
    "validate": _validate,
    "fetch": _fetch,
    "strategy": _code,
    "user_request": _reflect,
}


def _of_decider(reply: KeylessReply, prompt: _Prompt, text: str) -> PlannerTurn:
    answer = reply(prompt.messages, text)
    if isinstance(answer, Mapping):
        return _as_schema(prompt, dict(answer))
    if isinstance(answer, str):
        return PlannerTurn(text=answer)
    calls = [PlannerCall(name=each["name"], args=each["args"]) for each in answer.tool_calls]
    return PlannerTurn(text=answer.text, call=calls[0] if calls else None)


@cache
def _replies_of_package() -> Mapping[str, KeylessReply]:
    """Replies of the deciders that come with the package, by part; only a prompt of theirs needs them."""
    deciders = [
        each.load() for each in entries("quantgraph.deciders") if each.module.startswith("quantgraph.agents")
    ]
    return {part: reply for decider in deciders for part, reply in decider.keyless.items()}


def _last_answer(messages: Sequence[BaseMessage]) -> int:
    """Place of the last message that ended a turn; -1 without one."""
    ended = (
        at
        for at in range(len(messages) - 1, -1, -1)
        if isinstance(messages[at], AIMessage) and not cast(AIMessage, messages[at]).tool_calls
    )
    return next(ended, -1)


def _driver(
    messages: Sequence[BaseMessage], since: int, names: Iterable[tags.Tag]
) -> tuple[tags.Tag, str, int] | None:
    """The part that drives the messages from a place on: by the order of the names, then the newest."""
    for name in names:
        for at in range(len(messages) - 1, since - 1, -1):
            if isinstance(messages[at], HumanMessage | SystemMessage):
                text = tags.read(name, messages[at].text)
                if text is not None:
                    return name, text, at
    return None


def answer_conversation(
    messages: Sequence[BaseMessage],
    tools: Sequence[Tool],
    forced: bool,
    replies_of: Mapping[str, KeylessReply] | None = None,
) -> PlannerTurn:
    """The answer to a conversation; ``replies_of`` a decider come before the package's deciders'."""
    bound, of_decider = {str(tool["name"]): tool for tool in tools}, dict(replies_of or {})
    own = set().union(*(tags.own_parts(each.text) for each in messages))
    if own and not own & {*of_decider}:
        of_decider = {**_replies_of_package(), **of_decider}
    names = (*of_decider, *_HANDLERS)
    found = _driver(messages, _last_answer(messages) + 1, names) or _driver(messages, 0, names)
    if found is not None:
        name, text, begin = found
        prompt = _Prompt(messages=messages, tools=bound, forced=forced, begin=begin)
        return (
            _of_decider(of_decider[name], prompt, text)
            if name in of_decider
            else _HANDLERS[name](prompt, text)
        )
    humans = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return _plain(_Prompt(messages=messages, tools=bound, forced=forced, begin=humans[-1] if humans else -1))


_MODEL = "quantgraph-keyless-planner"
_NO_TOKENS = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)


class KeylessPlanner(BaseChatModel):
    """A deterministic chat model that needs no key.

    Examples
    --------
    >>> "not a language model" in KeylessPlanner().invoke("who are you?").text
    True
    """

    name: str | None = "keyless planner"
    model_name: str = _MODEL
    bound_tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | None = None
    replies: Mapping[str, KeylessReply] = Field(default_factory=dict, exclude=True, repr=False)
    """Replies in the roles of a decider, by part of its prompts, see :attr:`.ModelDecider.keyless`."""

    @property
    def _llm_type(self) -> str:
        return _MODEL

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": _MODEL, "bound_tools": self.bound_tools, "tool_choice": self.tool_choice}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy that may call these tools; ``tool_choice`` of ``"any"``, ``"required"`` or a name forces a call."""
        specs = tuple(convert_to_openai_tool(tool) for tool in tools)
        return self.model_copy(update={"bound_tools": specs, "tool_choice": tool_choice})

    def _turn(self, messages: Sequence[BaseMessage]) -> PlannerTurn:
        tools = [spec["function"] for spec in self.bound_tools]
        is_forced = self.tool_choice not in (None, "auto", "none")
        return answer_conversation(messages, tools, is_forced, self.replies)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class passes it
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> ChatResult:
        turn = self._turn(messages)
        calls = [] if turn.call is None else [
            tool_call(name=turn.call.name, args=turn.call.args, id=turn.call.id)
        ]  # fmt: skip
        message = AIMessage(
            content=turn.text,
            tool_calls=calls,
            response_metadata={"model_name": _MODEL},
            usage_metadata=_NO_TOKENS,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - the base class passes it
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002 - the base class passes it
    ) -> Iterator[ChatGenerationChunk]:
        for message in _pieces(self._turn(messages)):
            chunk = ChatGenerationChunk(message=message)
            if run_manager is not None:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _pieces(turn: PlannerTurn) -> Iterator[AIMessageChunk]:
    """The text word by word, then the arguments of a call in two pieces."""
    for word in re.findall(r"\S+\s*|\s+", turn.text):  # "20-day average"
        yield AIMessageChunk(content=word)
    if turn.call is not None:
        args = json.dumps(turn.call.args, ensure_ascii=False)
        half = len(args) // 2
        first = tool_call_chunk(name=turn.call.name, args=args[:half], id=turn.call.id, index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[first])
        rest = tool_call_chunk(name=None, args=args[half:], id=None, index=0)
        yield AIMessageChunk(content="", tool_call_chunks=[rest])
    yield AIMessageChunk(
        content="", response_metadata={"model_name": _MODEL}, usage_metadata=_NO_TOKENS, chunk_position="last"
    )
