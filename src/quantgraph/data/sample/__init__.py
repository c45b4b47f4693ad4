"""The embedded synthetic market."""

from quantgraph.data.sample.sample_source import NO_LIMIT, SampleSource

__all__ = ["NO_LIMIT", "SampleSource"]
