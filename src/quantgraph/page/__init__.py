"""A run as one HTML file that opens offline: figures, charts, trades, sessions of the decider.

``render_page`` draws a ``RunView``; ``render_comparison`` puts runs side by side. Texts from outside are
escaped by Jinja2. To add a picture: data in ``_data``, drawing in ``_drawings``, its place in
``page.html.j2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.page._comparison import (
        common_accounts,
        common_day_text,
        render_comparison,
        run_differences,
        run_names,
    )
    from quantgraph.page._data import FOLDER, CallStory, RunView, SessionStory
    from quantgraph.page._index import render_index
    from quantgraph.page._page import Page, plotly_name, plotly_script, render_page
    from quantgraph.page._summary import first_screen, tiles
    from quantgraph.page._trades import reason_words, round_trip_rows, trade_rows

__all__ = [
    "FOLDER",
    "CallStory",
    "Page",
    "RunView",
    "SessionStory",
    "common_accounts",
    "common_day_text",
    "first_screen",
    "plotly_name",
    "plotly_script",
    "reason_words",
    "render_comparison",
    "render_index",
    "render_page",
    "round_trip_rows",
    "run_differences",
    "run_names",
    "tiles",
    "trade_rows",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
