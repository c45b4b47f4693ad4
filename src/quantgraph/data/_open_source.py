"""Open a source of market data by name, path or object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from quantgraph._util.packages import call_entry, entries, find_entry, is_of_package, is_own, package_of
from quantgraph._util.texts import SOURCES
from quantgraph.errors import BadOption
from quantgraph.settings import Settings, load_settings

if TYPE_CHECKING:  # they load pandas, and a wrong name is refused at once
    from quantgraph.data._source import MarketDataSource, SourceLike

_GROUP = "quantgraph.sources"
_VALID = f"valid: {SOURCES}, a DataFrame, or a MarketDataSource"


def open_source(
    spec: SourceLike | None = None, *, settings: Settings | None = None, symbol: str | None = None
) -> MarketDataSource:
    """Open a source of market data.

    Parameters
    ----------
    spec
        None: the settings' ``data_source``, by default ``sample``. ``"sample"``: the embedded synthetic
        market. ``"tushare"``: tushare, with the settings' token and cache. ``"baostock"``: baostock, with the
        settings' cache; ``"yfinance:AAPL,MSFT"`` too. ``"qlib:FOLDER"``: a folder in qlib's binary format.
        ``"NAME"`` or ``"NAME:TEXT"``: a source that another package brings by an entry point of the group
        ``quantgraph.sources``, a callable that gets TEXT (a file of that name is ``./NAME``). A path: a
        file or folder of daily bars. A frame of daily bars, frames or series of closes by symbol, see
        :class:`~quantgraph.data.files.CallerTables`. A source is returned as it is.
    settings
        Default: :func:`~quantgraph.settings.load_settings`.
    symbol
        Symbol of the rows of one file or frame that has no column of symbols, and whose name says none.

    Raises
    ------
    BadOption
        If ``spec`` is none of these, or a path that does not exist.
    BadFile
        If a frame is not valid; files are read on the first request.
    """
    if spec is None:
        spec = (settings or load_settings()).data_source
    if not isinstance(spec, (str, Path)):
        return _from_object(spec, settings, symbol)
    settings = settings or load_settings()
    if str(spec) in {"sample", "tushare"}:
        return _by_name(str(spec), settings)
    name, colon, place = str(spec).partition(":")
    entry = find_entry(_GROUP, name) if name.replace("-", "_").isidentifier() else None
    if entry is None or (name == "qlib" and not colon):  # a folder of that name
        return _from_path(spec, settings, symbol)
    return _from_entry(entry, place, settings)


def _from_entry(entry: EntryPoint, place: str, settings: Settings) -> MarketDataSource:
    """The source of another package; its class is of that package, so that a run knows its code."""
    from quantgraph.data._source import MarketDataSource

    found = call_entry(entry, place, *([settings] if is_own(entry) else ()))
    kind = type(found)
    if isinstance(found, MarketDataSource) and is_of_package(kind.__module__, entry):
        return found
    raise BadOption(
        f"source={entry.name}: {entry.value} of {package_of(entry)} returned a {kind.__module__}."
        f"{kind.__name__}; must be a MarketDataSource of a class of that package",
        parameter="source",
    )


def _by_name(name: str, settings: Settings) -> MarketDataSource:
    """The shipped sample, or tushare with its cache."""
    if name == "sample":
        from quantgraph.data.sample._source import SampleSource

        return SampleSource()
    from quantgraph.data._vendor_store import cache_folder
    from quantgraph.data.tushare._client import URL_VARIABLE
    from quantgraph.data.tushare._source import TushareSource

    token = settings.tushare_token
    cache = cache_folder(settings.cache_dir, name, os.environ.get(URL_VARIABLE))
    return TushareSource(token.get_secret_value() if token else None, cache_dir=cache)


def _from_object(spec: object, settings: Settings | None, symbol: str | None) -> MarketDataSource:
    import pandas as pd

    from quantgraph.data._source import MarketDataSource

    if isinstance(spec, pd.Series):
        spec = spec.to_frame()
    if isinstance(spec, (pd.DataFrame, Mapping)):
        from quantgraph.data.files._source import CallerTables

        return CallerTables(spec, options=(settings or load_settings()).tables, symbol=symbol)
    if isinstance(spec, MarketDataSource):
        return spec
    shown = " ".join(repr(spec).split())
    raise BadOption(f"source={shown:.80} is not a source; {_VALID}", parameter="source")


def _from_path(spec: str | Path, settings: Settings, symbol: str | None) -> MarketDataSource:
    if not str(spec).strip() or not Path(spec).exists():
        raise BadOption(
            f"source={str(spec)!r} is not a known source or an existing path; {_VALID}"
            + "".join(f", {each.name}" for each in entries(_GROUP) if not is_own(each)),
            parameter="source",
        )
    from quantgraph.data.files._source import FileSource

    return FileSource(spec, max_file_mb=settings.max_file_mb, options=settings.tables, symbol=symbol)
