"""Quality checks of market data and signals."""

from quantgraph.audit.bars.impossible_bars import impossible_bars
from quantgraph.audit.bars.quality import check_data, check_signal, signal_counts

__all__ = ["check_data", "check_signal", "impossible_bars", "signal_counts"]
