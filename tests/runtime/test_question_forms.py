"""Questions as LangChain's human-in-the-loop middleware asks them, and answers in the forms of chat pages."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import TypeAdapter

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph._util.texts import Note
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption, UnknownQuestion
from quantgraph.graph._approval import approval_question
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import parse_answer
from quantgraph.runtime.dialogue._forms import question_as
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
STOCKS = "members of 合成30"
THREAD = {"configurable": {"thread_id": "t"}}
HITL = TypeAdapter(HITLRequest)


def asked(**changes: Any) -> Any:
    """A question about dates."""
    schema = {"anyOf": [{"type": "string", "pattern": r"\S"}]}
    task = {
        "id": "q1",
        "kind": "window",
        "reason": "which dates",
        "question": "Which dates?",
        "options": ["2024", "2025"],
        "default": "2025",
        "answer_schema": schema,
        "rounds_left": 2,
        "language": "en",
        "unread": [],
    }
    return task | changes


def approval() -> Any:
    orders = [
        {
            "sequence": str(place),
            "side": "buy",
            "symbol": symbol,
            "shares": "100",
            "type": "open",
            "price": "10",
        }
        for place, symbol in enumerate(("AAPL", "MSFT", "NVDA"), 1)
    ]
    whole = [{"wish": "quantity", "reason": "", "refused": "", **order} for order in orders]
    return approval_question("q1", "20250102", whole, "en")


def edit(text: object, **more: object) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": "answer_question", "args": {"answer": text, **more}}}


APPROVE, REJECT = {"type": "approve"}, {"type": "reject"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("2024", "2024"),
        ({"answer": "2024", "id": "q1"}, "2024"),
        # the middleware: one interrupt for all actions
        ({"decisions": [edit("2024")]}, "2024"),
        ({"decisions": [edit("2024", id="q1")], "id": "q1"}, "2024"),
        ({"decisions": [{"type": "respond", "message": " 2024 "}]}, "2024"),
        ({"decisions": [{"type": "respond", "message": "1"}]}, "2024"),
        ({"decisions": [APPROVE]}, "default"),
        ({"decisions": [REJECT]}, "cancel"),
        ({"decisions": [REJECT | {"message": "only 2023"}]}, "cancel: only 2023"),
        ({"decisions": [REJECT | {"message": "ok"}]}, "cancel: ok"),
        # its mode per_call: one decision
        (APPROVE, "default"),
        (edit("2024"), "2024"),
        ({"type": "respond", "message": "2024"}, "2024"),
        # agent-inbox
        ([{"type": "accept", "args": None}], "default"),
        ([{"type": "response", "args": "2024"}], "2024"),
        ([{"type": "edit", "args": {"action": "answer_question", "args": {"answer": "2024"}}}], "2024"),
        ([{"type": "ignore", "args": None}], "cancel"),
        ({"type": "response", "args": "2024"}, "2024"),
    ],
)
def test_an_answer_of_any_form_is_the_text_that_it_stands_for(answer, text):
    assert parse_answer(asked(), answer) == text


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"decisions": [APPROVE] * 3}, "approve"),
        ({"decisions": [REJECT] * 3}, "reject"),
        ({"decisions": [APPROVE, REJECT, APPROVE]}, "approve 1, 3"),
        ({"decisions": [APPROVE, REJECT | {"message": "too large"}, APPROVE]}, "approve 1, 3: too large"),
        (APPROVE, "approve"),
        (REJECT | {"message": "not today"}, "reject: not today"),
        ({"decisions": [APPROVE | {"message": "fine"}] * 3}, "approve 1, 2, 3: fine; fine; fine"),
        (APPROVE | {"message": "fine"}, "approve 1, 2, 3: fine"),
        ([{"type": "accept", "args": None}], "approve"),
        ([{"type": "ignore", "args": None}], "reject"),
        ({"type": "respond", "message": "approve all that follow"}, "approve all that follow"),
        ([{"type": "response", "args": "approve 2"}], "approve 2"),
    ],
)
def test_decisions_about_orders_are_one_each_or_one_for_all(answer, text):
    assert parse_answer(approval(), answer) == text


@pytest.mark.parametrize(
    ("task", "answer", "says"),
    [
        (approval(), {"decisions": [APPROVE] * 2}, "the answer needs 3 decisions, not 2"),
        (approval(), {"decisions": []}, "the answer needs 3 decisions, not 0"),
        (approval(), {"decisions": [APPROVE, edit("x"), APPROVE]}, "'edit' is not a decision here"),
        (approval(), [{"type": "edit", "args": {"action": "send_order", "args": {}}}], "'edit' is not"),
        (asked(), {"decisions": [APPROVE, APPROVE]}, "the answer needs 1 decision, not 2"),
        (asked(), {"decisions": ["approve"]}, "'approve' is not a decision here"),
        (asked(), {"decisions": None}, "None is not a decision here"),
        (asked(default=None), APPROVE, "'approve' is not a decision here; use edit, respond, reject"),
        (asked(), {"type": "maybe"}, "'maybe' is not a decision here"),
        (asked(), edit(7), "the answer must be text, not int"),
        (asked(), {"type": "edit"}, "the answer must be text, not NoneType"),
        (asked(), {"type": "respond"}, "the answer is empty"),
        (asked(), [], "the answer must be text, not list"),
        (asked(), {"what": "2024"}, "the answer must be text, not dict"),
        (approval(), REJECT | {"answer": "approve"}, "the answer has two forms; use one"),
        (approval(), {"decisions": [APPROVE] * 3, "answer": "reject"}, "the answer has two forms"),
        (approval(), [APPROVE, REJECT], "the answer needs 1 decision, not 2"),
        (approval(), APPROVE | {"message": "1, 3"}, "'approve 1, 2, 3: 1, 3' is not an option"),
    ],
)
def test_a_decision_that_does_not_fit_says_what_does(task, answer, says):
    fault = parse_answer(task, answer)
    assert isinstance(fault, Note)
    assert says in fault.en
    assert fault.zh != fault.en


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": [edit("2024", id="q0")]},
        {"decisions": [APPROVE], "id": "q0"},
        edit("2024", id="q0"),
        APPROVE | {"id": "q0"},
        [{"type": "edit", "args": {"action": "a", "args": {"answer": "2024", "id": "q0"}}}],
        [{"type": "accept", "args": None, "id": "q0"}],
    ],
)
def test_a_decision_that_names_another_question_answers_none(answer):
    with pytest.raises(UnknownQuestion, match="the answer is for question q0, but the open one is q1"):
        parse_answer(asked(), answer)


def test_an_answer_of_any_depth_is_read_without_recursion():
    deep: Any = "2024"
    for _ in range(100_000):
        deep = [{"args": deep, "decisions": [deep]}]
    assert isinstance(parse_answer(asked(), deep), Note)
    assert isinstance(parse_answer(asked(), {"decisions": [deep]}), Note)


@pytest.mark.parametrize("message", ["ok", "1", "2025", "default", "no"])
@pytest.mark.parametrize("answers", [[], [STOCKS]])
def test_a_rejection_agrees_to_nothing_whatever_its_reason_says(answers, message):
    """The first question is about stocks, the second about dates; both have a default and options."""
    graph = create_signal_subgraph(questions="hitl", checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", RULE)]}, THREAD)
    for answer in answers:
        graph.invoke(Command(resume=answer), THREAD)
    state = graph.invoke(Command(resume={"decisions": [REJECT | {"message": message}]}), THREAD)
    assert (state["ended_because"], state["error_messages"]) == (
        "cancelled",
        [f"cancelled: cancel: {message}"],
    )


def test_a_rejection_declines_a_confirmation():
    resources = Resources(confirm=True, questions="hitl", checkpointer=InMemorySaver())
    graph = create_signal_subgraph(resources=resources)
    state = graph.invoke({"messages": [("user", f"{STOCKS}, {RULE}, 2025")]}, THREAD)
    assert state["__interrupt__"][0].value["kind"] == "confirmation"
    state = graph.invoke(Command(resume={"decisions": [REJECT | {"message": "ok"}]}), THREAD)
    assert state["ended_because"] == "cancelled"


@pytest.mark.parametrize("task", [asked(), asked(default=None, options=[]), approval()])
def test_the_form_hitl_is_a_request_of_the_middleware_and_of_agent_inbox(task):
    value = question_as("hitl", task)
    request = HITL.validate_python(value)
    (config,) = request["review_configs"]
    assert {action["name"] for action in request["action_requests"]} == {config["action_name"]}
    assert ("approve" in config["allowed_decisions"]) == bool(task["default"])
    assert set(value["action_request"]) == {"action", "args"}
    assert set(value["config"]) == {"allow_accept", "allow_edit", "allow_respond", "allow_ignore"}
    assert all(isinstance(allowed, bool) for allowed in value["config"].values())
    assert (
        task["question"].splitlines()
        == [line for line in value["description"].splitlines() if line][: len(task["question"].splitlines())]
    )
    assert value["action_request"]["args"]["question"] == value["description"]
    assert ("accept" in value["action_request"]["args"]) == value["config"]["allow_accept"]


def test_each_order_says_what_it_is_for_and_why_it_is_wished_or_would_be_refused():
    first, *_ = orders = approval()["orders"]
    first |= {"reason": "signal 1", "refused": None}
    several = question_as("hitl", approval() | {"reason": "3 January", "question": "Send?", "orders": orders})
    shown = [action["args"] for action in several["action_requests"]]
    assert [args["question"] for args in shown] == ["Send?", "3 January (2/3)", "3 January (3/3)"]
    assert (shown[0]["reason"], "refused" in shown[0], "reason" in shown[1]) == ("signal 1", False, False)
    one = question_as("hitl", approval() | {"question": "Send?", "orders": [first], "error": "what?"})
    assert one["action_requests"][0]["args"]["question"] == "what?\n\nSend?"


def test_lines_of_a_question_stay_lines_in_markdown():
    question = 'Which stocks?\nAlso open:\n- dates\n- rule\n(Answer "default")'
    value = question_as("hitl", asked(error="7 is no option", question=question, options=["all", "some"]))
    whole = (
        "7 is no option\n\nWhich stocks?\n\nAlso open:\n\n- dates\n- rule\n\n"
        '(Answer "default")\n\n1. all\n2. some'
    )
    assert value["description"] == whole
    assert value["action_request"]["args"] == {
        "question": whole,
        "accept": "2025",
        "ignore": "gives the request up",
    }


def test_while_a_chat_page_asks_the_question_is_the_last_message_and_the_conversation_stays_the_same():
    conversations = []
    for form in ("quantgraph", "hitl"):
        graph = create_signal_subgraph(questions=form, checkpointer=InMemorySaver())
        state = graph.invoke({"messages": [HumanMessage(RULE, id="m")], "run_id": "r"}, THREAD)
        for answer in (STOCKS, "2025"):
            task = state["quantgraph"]["dialogue"]["clarification"]
            assert (state["messages"][-1].text == task["question"]) == (form == "hitl")
            state = graph.invoke(Command(resume=answer), THREAD)
        assert state["ended_because"] == "done"
        conversations.append([(each.id, each.type, each.text) for each in state["messages"]])
    assert conversations[0] == conversations[1]
    assert [kind for _, kind, _ in conversations[0]] == ["human", "ai", "human", "ai", "human", "ai"]


@pytest.mark.parametrize(("follow_up", "says"), [("use 30 days", "Reading the"), ("改成30天", "好的")])
def test_a_later_request_of_a_chat_page_begins_with_a_message_of_the_assistant(follow_up, says, tmp_path):
    resources = Resources(store=DataState(tmp_path / "data"), ledger=tmp_path / "ledger.sqlite")
    graph = create_trading_graph(questions="hitl", checkpointer=InMemorySaver(), resources=resources)
    first = graph.invoke({"messages": [("user", f"{STOCKS}, {RULE}, 20250102 to 20250110")]}, THREAD)
    assert [each.type for each in first["messages"]] == ["human", "ai", "ai"]
    for _ in range(2):  # the second message is typed into the box while the first one's question is open
        state = graph.invoke({"messages": [("user", follow_up)]}, THREAD)
        assert state["__interrupt__"][0].value["kind"] == "strategy"
        assert state["messages"][-1].type == "ai"
        assert state["messages"][-1].text.startswith(says)
    thanked = graph.invoke(Command(resume={"decisions": [REJECT]}), THREAD)
    assert thanked["ended_because"] == "cancelled"


def test_a_message_that_cannot_answer_is_followed_by_the_question():
    graph = create_signal_subgraph(questions="hitl", checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", f"{STOCKS}, {RULE}")]}, THREAD)
    state = graph.invoke({"messages": [("user", "77")]}, THREAD)
    assert state["__interrupt__"][0].value["description"].startswith("there is no option 77")
    assert [each.type for each in state["messages"]] == ["human", "ai", "human", "ai"]
    state = graph.invoke({"messages": [("user", "2025")]}, THREAD)
    assert state["ended_because"] == "done"
    assert [each.type for each in state["messages"]] == ["human", "ai", "human", "ai", "human", "ai"]


def test_a_run_is_answered_by_decisions_alone_from_the_sentence_to_the_trades(tmp_path):
    resources = Resources(store=DataState(tmp_path / "data"), ledger=tmp_path / "ledger.sqlite")
    graph = create_trading_graph(
        approve=True, checkpointer=InMemorySaver(), resources=resources, questions="hitl"
    )
    state = graph.invoke({"messages": [("user", RULE)], "run_id": "r"}, THREAD)
    decisions = [[edit(STOCKS)], [{"type": "respond", "message": "20250102 to 20250110"}]]
    kinds = []
    while pauses := state.get("__interrupt__"):
        value, schema = pauses[0].value, pauses[0].response_schema
        count = len(value["action_requests"])
        each = [REJECT] + [APPROVE] * (count - 1)
        answer = {"decisions": decisions.pop(0) if decisions else each}
        jsonschema.validate(answer, schema)
        kinds.append((value["kind"], count))
        state = graph.invoke(Command(resume=answer), THREAD)
    assert [kind for kind, _ in kinds[:2]] == ["symbol", "window"]
    assert {kind for kind, _ in kinds[2:]} == {"approval"}
    assert state["ended_because"] == "done"
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        refused = [each for each in ledger.rejection_records("r") if each.code == "not_approved"]
    assert len(refused) == len(kinds) - 2  # the first order of each session


def test_an_answer_in_a_wrong_form_is_asked_again_and_costs_nothing():
    graph = create_signal_subgraph(questions="hitl", checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", f"{STOCKS}, {RULE}")]}, THREAD)
    state = graph.invoke(Command(resume={"decisions": [APPROVE, APPROVE]}), THREAD)
    (pause,) = state["__interrupt__"]
    assert pause.value["description"].startswith("the answer needs 1 decision, not 2")
    assert state["clarification_count"] == 0
    state = graph.invoke(Command(resume={"decisions": [edit("2025")]}), THREAD)
    assert (state["ended_because"], state["clarification_count"]) == ("done", 1)


def test_an_edited_action_of_an_earlier_question_answers_no_later_one():
    graph = create_signal_subgraph(questions="hitl", checkpointer=InMemorySaver())
    state = graph.invoke({"messages": [("user", RULE)]}, THREAD)
    args = state["__interrupt__"][0].value["action_requests"][0]["args"]
    answer = {"decisions": [edit(STOCKS, id=args["id"])]}
    state = graph.invoke(Command(resume=answer), THREAD)
    with pytest.raises(UnknownQuestion):
        graph.invoke(Command(resume=answer), THREAD)
    assert graph.get_state(THREAD).interrupts[0].value["kind"] == "window"
    state = graph.invoke(Command(resume={"decisions": [edit("2025")]}), THREAD)
    assert state["ended_because"] == "done"
    after = graph.invoke(Command(resume=answer), THREAD)
    assert after["ended_because"] == "done"
    assert len(after["messages"]) == len(state["messages"])


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(BadOption, match="questions must be quantgraph or hitl, not 'chat'"):
        create_signal_subgraph(questions="chat")
