"""A-share data from tushare."""
