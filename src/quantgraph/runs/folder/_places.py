"""Where a run's folder is; imports little, so that a wrong name is refused at once."""

from __future__ import annotations

from pathlib import Path

from quantgraph.errors import BadOption

MANIFEST_FILE = "run.json"


def find_run_folder(run: str | Path, runs_dir: Path) -> Path:
    """The folder of a run, as a path or by the run's name.

    Raises
    ------
    BadOption
        If there is no such run.
    """
    places = dict.fromkeys((Path(run), runs_dir / run))  # an absolute path is one place
    for folder in places:
        if (folder / MANIFEST_FILE).is_file():
            return folder
    message = f"RUN={str(run)!r}: there is no {MANIFEST_FILE} in {' or in '.join(map(str, places))}"
    if any((folder / "ledger.sqlite").is_file() for folder in places):
        message += "; a run of your own graph is resumed and replayed with that graph, see docs/embedding.md"
    raise BadOption(message, parameter="run")
