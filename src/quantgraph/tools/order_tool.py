"""The tool by which a model decides: its call is the decision, which the agent's code carries out.

The tool's docstring is the description that models are sent.
"""

from __future__ import annotations

from typing import Annotated, Literal

from langchain_core.tools import tool
from pydantic import Field

from quantgraph._util.docstrings import with_docstring
from quantgraph.errors import BadOption


@tool("place_order", parse_docstring=True)
@with_docstring
def place_order(
    action: Literal["buy", "sell", "hold"],
    reason: str,
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)],
) -> str:
    """Decide on the symbol. It ends your work on it; the size of the order is not yours to choose.

    Args:
        action: "buy", "sell" or "hold".
        reason: The fact that it rests on.
        confidence: How sure you are, from 0 to 1; above 0 for a buy or a sell.
    """
    raise BadOption(
        f"place_order({action}, {confidence:g}, {reason!r:.60}) is a decision; no tool call carries it out"
    )
