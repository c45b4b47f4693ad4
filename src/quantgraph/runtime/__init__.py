"""What nodes of every graph stand on: resources, running a node, agents with tools.

``Resources`` are the live objects of a run (store, source, models, code runner, ledger, recorder), passed on
whole. ``as_node`` wraps each node: errors become endings, loops are found, and a nested graph gets no
checkpointer of its host. ``dialogue`` asks the person and emits events; ``endings`` names how a graph may
end; ``graph_state`` has what the graphs share beside the documented fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runtime._agents import (
        Agent,
        agent_question,
        as_earlier_reply,
        as_node,
        check_finished,
        compile_graph,
        create_node_agent,
        invoke_agent,
        stop_line,
        tool_errors,
    )
    from quantgraph.runtime._resources import (
        OpenResources,
        Resources,
        merge_resources,
        open_resources,
        run_database_path,
        settings_of,
    )
    from quantgraph.runtime._run_node import STEP_LIMIT, steps_left
    from quantgraph.runtime._savers import new_saver

__all__ = [
    "STEP_LIMIT",
    "Agent",
    "OpenResources",
    "Resources",
    "agent_question",
    "as_earlier_reply",
    "as_node",
    "check_finished",
    "compile_graph",
    "create_node_agent",
    "invoke_agent",
    "merge_resources",
    "new_saver",
    "open_resources",
    "run_database_path",
    "settings_of",
    "steps_left",
    "stop_line",
    "tool_errors",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
