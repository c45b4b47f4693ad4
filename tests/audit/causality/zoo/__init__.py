"""A zoo of strategies: what a causality check must catch, and what it must let pass.

``LEAKY`` and ``HONEST``, of ``leaky.md`` and ``honest.md``, are cells as a language model writes them for the code tool;
``functions`` holds strategies that are functions. Only data: no test is in here.

Adding a snippet
----------------
- Write it as a model would: complete cells over ``snapshot``, in scope ``pd``, ``np`` and
  ``GLOBAL_DATA_STATE``, a signal of 1, 0, -1 or NaN with the index and columns of the close frame, handed
  over under the snippet's own name. It must run on both panels; fields that only one of them has are asked
  for with ``in``.
- It must be new in kind or in disguise. ``why`` says in one line what is used too early, or why nothing is.
- A leaky one must leak where it trades: run it on ``close.iloc[:t]`` and on the whole panel, and compare row
  by row with NaN taken as 0. At least once the last row of a prefix must differ from the same row of the
  whole. The share of prefixes that differ anywhere decides :attr:`Snippet.fires`.
- An honest one must give equal cells, NaN included, for every prefix on which it does not raise, and it may
  raise on short ones only.
- Cells may fail on prefixes that are too short. They may not depend on the clock, files or unseeded chance.

A reported miss or false alarm becomes a snippet first, and is mended then.
"""

from __future__ import annotations

from .functions import HONEST_FUNCTIONS, LEAKY_FUNCTIONS, UNSEEN_FUNCTIONS, FunctionCase
from .snippet import Snippet, read_snippets

__all__ = [
    "HONEST",
    "HONEST_FUNCTIONS",
    "LEAKY",
    "LEAKY_FUNCTIONS",
    "UNCATCHABLE",
    "UNSEEN_FUNCTIONS",
    "FunctionCase",
    "Snippet",
]

LEAKY, HONEST = read_snippets("leaky.md"), read_snippets("honest.md")

UNCATCHABLE: tuple[tuple[str, str], ...] = (
    (
        "dates or symbols by heart",
        "Code that names days or stocks, because its author or the model that wrote it knows what they did, "
        "computes nothing from later rows. It gives the same signal on every prefix.",
    ),
    (
        "a rule found on the same data",
        "Windows and thresholds that were tuned on the period of the backtest are constants in the code. "
        "Only data from after the tuning can tell.",
    ),
    (
        "a universe chosen with hindsight",
        "Stocks picked by the user because they did well, or today's members of an index, are the panel itself: "
        "those that failed are not in it.",
    ),
    (
        "data adjusted before it was loaded",
        "Prices adjusted for later dividends, accounts restated after publication or series revised since are "
        "wrong in every row, and a prefix of them is as wrong.",
    ),
    (
        "data dated too early",
        "A figure stamped with the period it is about instead of the day it was published is taken as known "
        "from that day on.",
    ),
    (
        "another source than the panel",
        "A function of the user's own process that reads a global, a file or a server gets the same future "
        "whatever panel it is given. Code in the sandbox has no such source.",
    ),
    (
        "a leak that changes nothing here",
        "A branch that is never taken on this data, on any of its cuts or on the other futures tried, leaves "
        "no trace. It may be taken next year.",
    ),
    (
        "a leak between two sessions",
        "Daily bars say nothing of the order of events inside a session. That a low came before a high, or that "
        "an order at the open was filled at its price, is for the rules of execution.",
    ),
    (
        "rare places of a check that is not exhaustive",
        "If not every session was proved, a leak that shows at one of them only may lie between. The verdict "
        "tells how many were.",
    ),
)
"""What in principle no test that runs a strategy on other data can find: name, and why."""
