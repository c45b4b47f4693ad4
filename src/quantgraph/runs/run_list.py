"""The runs of a folder, and several runs beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.notebook_html import html_lines, html_table, short_line
from quantgraph._util.texts import Note, escape_controls
from quantgraph.errors import BadOption, QuantGraphError
from quantgraph.runs.folder import MANIFEST_FILE, read_manifest
from quantgraph.runs.outputs import RESULT_FILE, initial_result, read_result
from quantgraph.runs.run_result import RunResult, open_run
from quantgraph.settings import load_settings

_COLUMNS = ("run", "started", "sentence", "decider", "ended", "return", "max_drawdown", "folder", "error")
_NUMBERS = ("return", "max_drawdown")
_PARTS = (MANIFEST_FILE, RESULT_FILE, "ledger.sqlite")
"""Files of which a run's folder has at least one."""
_NO_DIFFERENCE = Note(zh="没有不同", en="no difference")


def list_runs(folder: str | Path | None = None) -> pd.DataFrame:
    """The runs of a folder, newest first, whatever state their folders are in.

    Parameters
    ----------
    folder
        Default: ``runs_dir`` of the settings.

    Returns
    -------
    pandas.DataFrame
        ``run`` (its name), ``started`` (UTC, datetime64[us]), ``sentence``, ``decider``; ``ended``: why it
        ended, ``failed``, ``running`` for one that has not ended, because it is going on or was killed,
        ``graph`` for the ledger of a graph of your own, whose result is in its state, or ``unreadable`` for a
        folder that is damaged, lacks files or is of another version; ``return`` and ``max_drawdown``
        (float64, fractions, NaN without an account), ``folder``; and ``error``, why it did not come to its
        end or cannot be read. Texts are ``str``, empty where nothing is known.

    Raises
    ------
    BadOption
        If ``folder`` is given and is not a folder.
    """
    place = Path(folder) if folder is not None else load_settings().runs_dir
    if folder is not None and not place.is_dir():
        raise BadOption(f"folder={str(folder)!r} is not a folder", parameter="folder")
    table = pd.DataFrame(list(map(_row, _run_folders(place))), columns=list(_COLUMNS))
    table["started"] = pd.to_datetime(table["started"], utc=True, format="ISO8601", errors="coerce")
    kinds: dict[str, Any] = {name: "float64" if name in _NUMBERS else "str" for name in _COLUMNS}
    texts = [name for name in _COLUMNS if name not in {*_NUMBERS, "started"}]
    table[texts] = table[texts].fillna("")
    table = table.astype(kinds | {"started": "datetime64[us, UTC]"})
    return table.sort_values(["started", "run"], ascending=False, na_position="last").reset_index(drop=True)


def _run_folders(place: Path) -> list[Path]:
    try:
        inside = sorted(path for path in place.iterdir() if not path.name.startswith("."))
        return [path for path in inside if any((path / name).exists() for name in _PARTS)]
    except FileNotFoundError:  # no run was begun yet
        return []


def _row(folder: Path) -> dict[str, Any]:
    """A run in one row of :func:`list_runs`."""
    row: dict[str, Any] = {"run": escape_controls(folder.name), "folder": escape_controls(str(folder))}
    if not (folder / MANIFEST_FILE).exists():
        has_result = (folder / RESULT_FILE).exists()
        error = f"there is no {MANIFEST_FILE}: " + (
            "not a run of run_strategy" if has_result else "a run of a graph of your own; this is its ledger"
        )
        return row | {"ended": "unreadable" if has_result else "graph", "error": error}
    try:
        manifest = read_manifest(folder)
        result = read_result(folder) or initial_result(manifest, folder)
        account = result.get("account") or {}
        numbers = {name: float(account[name]) for name in _NUMBERS if account.get(name) is not None}
        return {
            **row,
            "started": str(manifest.started),
            "sentence": manifest.spec.question,
            "decider": str(manifest.identity.configuration.get("decider", "")),
            "ended": str(result["ended_because"] or result["state"]),
            "error": str(result.get("error") or ""),
            **numbers,
        }
    except QuantGraphError as error:
        return row | {"ended": "unreadable", "error": error.line}
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return row | {"ended": "unreadable", "error": f"bad_file: {escape_controls(reason)}"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparison:
    """Several runs beside each other.

    Attributes
    ----------
    numbers
        A row a number of the account, by its name in ``result["account"]``; a column a run; float64, NaN
        where a run has none.
    differences
        A row a difference of what was said or of parameters, by its name; a column a run; ``str``. Empty if
        the runs differ in nothing.
    """

    numbers: pd.DataFrame
    differences: pd.DataFrame
    _shown: pd.DataFrame
    """The numbers as texts, labelled in the language of the first run."""
    _nothing: str

    def __repr__(self) -> str:
        lines = [
            "\n".join(
                [name, *(f"  {run}: {cell}" for run, cell in zip(self.numbers.columns, cells, strict=True))]
            )
            for name, *cells in _rows_of(self.differences)
        ]
        parts = [self._shown.to_string()] if len(self._shown) else []
        return "\n\n".join([*parts, "\n".join(lines) or self._nothing])

    def _repr_html_(self) -> str:
        rows = [*_rows_of(self._shown), *_rows_of(self.differences)]
        nothing = [] if len(self.differences) else [self._nothing]
        return html_table(rows, head=["", *self.numbers.columns]) + html_lines(nothing)


def _rows_of(table: pd.DataFrame) -> Iterator[list[str]]:
    """The name and the cells of each row, each a short line; the lines of a cell are set apart."""
    for name, cells in zip(table.index, table.to_numpy(), strict=True):
        yield [short_line(name), *(short_line(" | ".join(str(cell).splitlines())) for cell in cells)]


def compare(*runs: str | Path | RunResult) -> RunComparison:
    """Compare two runs or more: folders, names in ``runs_dir`` of the settings, or results.

    Differences are those of the sentence, of what was understood, the trade plan, the window, the symbols,
    the source and the end, and of every parameter: cash, rules and costs, decider, models, settings.

    Raises
    ------
    BadOption
        If there are fewer than two, one is given twice, or one does not exist.
    BadFile
        If one is damaged, or of another version.
    """
    from quantgraph.report.html.comparison import run_differences, run_numbers
    from quantgraph.report.html.page import shown
    from quantgraph.runs.view_reader import view_run

    if len(runs) < 2:
        raise BadOption(f"compare takes two runs or more, not {len(runs)}", parameter="runs")
    opened = [run if isinstance(run, RunResult) else open_run(run) for run in runs]
    names = [result.folder.name for result in opened]
    names = names if len({*names}) == len(names) else [str(result.folder) for result in opened]
    names = list(map(escape_controls, names))
    for name in names:
        if names.count(name) > 1:
            raise BadOption(f"run {name} is given twice; compare takes different runs", parameter="runs")
    views = [view_run(result.folder, with_calls=False) for result in opened]
    language = views[0].language
    rows = list(run_numbers(views, language))
    differences = {**_said_differently([view.result for view in views]), **dict(run_differences(views))}
    return RunComparison(
        numbers=_table({row["key"]: row["cells"] for row in rows}, names).astype("float64"),
        differences=_table(differences, names).astype("str"),
        _shown=_table(
            {row["label"]: [shown(cell, row["how"]) for cell in row["cells"]] for row in rows}, names
        ),
        _nothing=_NO_DIFFERENCE.text(language),
    )


def _table(rows: Mapping[str, Sequence[Any]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(dict(rows), orient="index", columns=columns)


def _said_differently(results: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The trade plans, traded symbols and ends that are not the same in all runs."""
    plans = [(result.get("understanding") or {}).get("plan") or {} for result in results]
    traded = [result.get("symbols") or [] for result in results]
    common = set(traded[0]).intersection(*traded)
    own = [", ".join(symbol for symbol in symbols if symbol not in common) for symbols in traded]
    rows = {
        "ended": [str(result["ended_because"] or result["state"]) for result in results],
        "plan": [json.dumps(plan, ensure_ascii=False, sort_keys=True) if plan else "" for plan in plans],
        "traded": [
            f"{len(symbols)}" + (f": {also}" if also else "")
            for symbols, also in zip(traded, own, strict=True)
        ],
    }
    return {name: cells for name, cells in rows.items() if len({*cells}) > 1}
