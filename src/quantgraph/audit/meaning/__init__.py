"""The check of a signal against what was said: its positions against the words', and its structure."""

from quantgraph.audit.meaning.meaning_check import check_meaning
from quantgraph.audit.meaning.position_comparison import Comparison, Difference, Reading, compare_positions
from quantgraph.audit.meaning.signal_structure import Said

__all__ = ["Comparison", "Difference", "Reading", "Said", "check_meaning", "compare_positions"]
