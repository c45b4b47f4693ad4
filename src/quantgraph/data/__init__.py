"""Market data: where it comes from, and how people name what they want of it."""

from __future__ import annotations

from pathlib import Path

from quantgraph.data.source import BAR_FIELDS, INDICATOR_FIELDS, MarketDataSource, Members, Panel
from quantgraph.data.symbols import INDEX_NAMES, ResolvedSymbols, resolve_symbols
from quantgraph.errors import BadOption

__all__ = [
    "BAR_FIELDS",
    "INDEX_NAMES",
    "INDICATOR_FIELDS",
    "MarketDataSource",
    "Members",
    "Panel",
    "ResolvedSymbols",
    "open_source",
    "resolve_symbols",
]

_VALID = "valid: sample, tushare, the path of a file or folder, or an object that is a MarketDataSource"


def open_source(spec: str | Path | MarketDataSource | None = None) -> MarketDataSource:
    """Open a source of market data.

    Parameters
    ----------
    spec
        None or ``"sample"``: the embedded synthetic sample. ``"tushare"``: tushare, with the token from
        the environment. A path: a file or folder of daily bars. A source: itself.

    Raises
    ------
    BadOption
        If it is none of these, or a path that does not exist.
    """
    if spec is None or spec == "sample":
        from quantgraph.data.sample import SampleSource

        return SampleSource()
    if spec == "tushare":
        from quantgraph.data.tushare import TushareSource

        return TushareSource()
    if isinstance(spec, (str, Path)):
        return _from_path(spec)
    if isinstance(spec, MarketDataSource):
        return spec
    raise BadOption(f"source={spec!r} is no source; {_VALID}", parameter="source")


def _from_path(spec: str | Path) -> MarketDataSource:
    from quantgraph.data.files import FileSource

    if not str(spec).strip() or not Path(spec).exists():
        raise BadOption(
            f"source={str(spec)!r} is no known source and no existing path; {_VALID}", parameter="source"
        )
    return FileSource(spec)
