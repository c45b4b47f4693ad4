"""Checks that code makes, which no model can overrule."""

from quantgraph.audit.quality import Finding, Report, check_data, check_signal, signal_counts

__all__ = ["Finding", "Report", "check_data", "check_signal", "signal_counts"]
