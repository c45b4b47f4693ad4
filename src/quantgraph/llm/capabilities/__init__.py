"""What models can do differs; who uses one here need not know.

:class:`CapabilityChatModel` calls tools natively for every model, on the highest rung that it can stand on;
:func:`ask_json` reads its answers.
"""

from quantgraph.llm.capabilities.capability_model import CapabilityChatModel
from quantgraph.llm.capabilities.json_answer import ask_json
from quantgraph.llm.capabilities.modes import MODES, CapabilityMode

__all__ = ["MODES", "CapabilityChatModel", "CapabilityMode", "ask_json"]
