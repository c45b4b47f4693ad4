"""May it run: whether the nodes can fill the prompts that a caller gives in place of ours."""

from __future__ import annotations

from quantgraph.runtime import OpenResources
from quantgraph.subgraphs.signal._agents import PromptName, prompt_text
from quantgraph.subgraphs.signal.nodes.clarify import CLARIFY_NODE_PROMPT
from quantgraph.subgraphs.signal.nodes.data_fetch import DATA_FETCH_AGENT_PROMPT

_FILES: dict[str, PromptName] = {"validate": "validation"}
_FILES |= {"reflection": "reflection", "signal_generate": "signal_generate"}


def check_prompts(resources: OpenResources) -> None:
    """Refuse a prompt that is of no node, or that its node cannot fill (``BadOption``)."""
    if not resources.prompt_values:  # also refuses unknown nodes
        return
    resources.prompt("data_fetch", DATA_FETCH_AGENT_PROMPT)
    resources.prompt("clarify", CLARIFY_NODE_PROMPT)
    for node, name in _FILES.items():
        for language in ("zh", "en"):
            resources.prompt(node, prompt_text(name, language))
