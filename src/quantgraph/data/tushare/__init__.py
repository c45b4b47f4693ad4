"""A-share data from tushare."""

from quantgraph.data.tushare.client import TOKEN_VARIABLE, URL_VARIABLE
from quantgraph.data.tushare.tushare_source import TushareSource, cache_folder

__all__ = ["TOKEN_VARIABLE", "URL_VARIABLE", "TushareSource", "cache_folder"]
