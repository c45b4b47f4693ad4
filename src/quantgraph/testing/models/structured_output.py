"""How a scripted model's ``with_structured_output`` reads its answers: a tool call, or JSON in the text."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import BaseModel, ValidationError

__all__ = ["Method", "structured"]

Schema = dict[str, Any] | type
Method = Literal["function_calling", "json_schema", "json_mode"]


def structured(
    model: BaseChatModel, schema: Schema, method: Method, *, include_raw: bool
) -> Runnable[Any, Any]:
    """A model that answers with objects of ``schema``.

    Under ``function_calling`` the schema is bound as a tool, and an answer that is neither a call of it nor
    JSON is None, as at ``ChatOpenAI``. Under the other two it is a ``response_format``, and such an answer
    raises. Which of the two forms the script has written down does not matter.
    """
    name = str(convert_to_openai_tool(schema)["function"]["name"])

    def read(message: AIMessage) -> Any:
        value = _value(message, name, method)
        if value is None or not (isinstance(schema, type) and issubclass(schema, BaseModel)):
            return value
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            raise OutputParserException(str(error)) from error

    def read_raw(message: AIMessage) -> dict[str, Any]:
        try:
            return {"raw": message, "parsed": read(message), "parsing_error": None}
        except OutputParserException as error:
            return {"raw": message, "parsed": None, "parsing_error": error}

    asked = (
        model.bind_tools([schema], tool_choice=name)
        if method == "function_calling"
        else model.bind(response_format=_response_format(schema, name, method))
    )
    return asked | RunnableLambda(read_raw if include_raw else read)


def _value(message: AIMessage, name: str, method: Method) -> Any:
    for call in message.tool_calls:
        if call["name"] == name:
            return call["args"]
    try:
        return JsonOutputParser().parse(str(message.text))
    except OutputParserException:
        if method == "function_calling":
            return None
        raise


def _response_format(schema: Schema, name: str, method: Method) -> dict[str, Any]:
    if method == "json_mode":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": convert_to_json_schema(schema), "strict": True},
    }
