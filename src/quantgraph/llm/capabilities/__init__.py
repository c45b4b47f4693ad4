"""What models can do differs: :class:`CapabilityChatModel` gives each of them native tool calls."""

from quantgraph.llm.capabilities.capability_model import CapabilityChatModel
from quantgraph.llm.capabilities.modes import MODES, CapabilityMode

__all__ = ["MODES", "CapabilityChatModel", "CapabilityMode"]
