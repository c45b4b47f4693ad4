"""The runs of a folder, and several runs beside each other."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadOption
from quantgraph.report.html.comparison import run_differences, run_numbers
from quantgraph.runs.folder import MANIFEST_FILE
from quantgraph.runs.run_result import RunResult, open_run, result_line
from quantgraph.runs.run_view import view_run
from quantgraph.settings import load_settings

__all__ = ["RunComparison", "compare", "list_runs"]

_COLUMNS = ("started", "sentence", "decider", "ended", "return", "max_drawdown", "run", "folder", "error")


def list_runs(folder: str | Path | None = None) -> pd.DataFrame:
    """The runs of a folder, newest first.

    Parameters
    ----------
    folder
        Default: ``runs_dir`` of the settings.

    Returns
    -------
    pandas.DataFrame
        ``started`` (UTC), ``sentence``, ``decider``, ``ended`` (why, or ``running`` or ``failed``;
        ``unreadable`` for a folder that is damaged or of another version), ``return`` and ``max_drawdown``
        (fractions, NaN without an account), ``run`` (its name), ``folder``, and ``error``, why it did not
        come to its end.
    """
    place = Path(folder) if folder is not None else load_settings().runs_dir
    found = [path.parent for path in place.glob(f"*/{MANIFEST_FILE}") if not path.parent.name.startswith(".")]
    rows = [result_line(path) for path in sorted(found, key=lambda path: path.name)]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    table["started"] = pd.to_datetime(table["started"], utc=True)
    numbers: dict[str, str] = dict.fromkeys(("return", "max_drawdown"), "float64")
    table = table.astype(numbers)
    return table.sort_values(["started", "run"], ascending=False, na_position="last").reset_index(drop=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class RunComparison:
    """Several runs beside each other.

    Attributes
    ----------
    numbers
        A row a number of the account, a column a run; NaN where a run has none.
    differences
        A row a difference: what was said, and parameters that are not the same; a column a run.
    """

    numbers: pd.DataFrame
    differences: pd.DataFrame

    def __repr__(self) -> str:
        shown = self.differences if len(self.differences) else "no difference"
        numbers = self.numbers.to_string(float_format="{:,.4f}".format)
        return f"{numbers}\n\n{escape_controls(str(shown), multiline=True)}"

    def _repr_html_(self) -> str:
        differences = self.differences.to_html() if len(self.differences) else html.escape("no difference")
        return self.numbers.to_html(float_format="{:,.4f}".format) + differences


def compare(*runs: str | Path | RunResult) -> RunComparison:
    """Compare two runs or more: folders, names in ``runs_dir`` of the settings, or results.

    Raises
    ------
    BadOption
        If there are fewer than two, or one does not exist.
    BadFile
        If one is damaged, or of another version.
    """
    if len(runs) < 2:
        raise BadOption(f"compare takes two runs or more, not {len(runs)}", parameter="runs")
    opened: Sequence[RunResult] = [run if isinstance(run, RunResult) else open_run(run) for run in runs]
    views = [view_run(result.folder) for result in opened]
    names = [view.run_id for view in views]
    numbers = {row["label"]: row["cells"] for row in run_numbers(views, views[0].language)}
    differences = dict(run_differences(views))
    return RunComparison(
        numbers=pd.DataFrame.from_dict(numbers, orient="index", columns=names, dtype="float64"),
        differences=pd.DataFrame.from_dict(differences, orient="index", columns=names, dtype="str"),
    )
