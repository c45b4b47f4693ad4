"""The pages of runs as files: written beside the run, written again with the same bytes, and verified."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quantgraph._util.files import storage_errors, write_atomic
from quantgraph._util.texts import Language
from quantgraph.broker import Ledger
from quantgraph.errors import BadFile, QuantGraphError
from quantgraph.report.html.comparison import render_comparison
from quantgraph.report.html.page import Page, plotly_name, plotly_script, render_page
from quantgraph.report.html.page_data import FOLDER
from quantgraph.runs.folder import MANIFEST_FILE, existing_ledger, read_manifest
from quantgraph.runs.view_reader import view_run

PAGE_FILE, CARD_FILE = "report.html", "report.svg"
COMPARISON_FILE = "comparison.html"
_MARK = re.compile(r'<meta name="quantgraph-run" content="(\S+) (zh|en) (inline|folder)">')
_HEAD = 4_000
"""Characters of a page that have its mark."""


@dataclass(frozen=True, kw_only=True)
class PageCheck:
    """Whether a page is what its run's folder gives, and if not, why."""

    run_id: str
    ok: bool
    reason: str = ""


def write_page(
    folders: Sequence[Path], *, language: Language | None = None, inline: bool = False, to: Path | None = None
) -> Path:
    """Write the page of a run, or one that compares several. Nothing is run; equal folders give equal bytes.

    The page of a run is ``report.html`` in its folder, with ``report.svg``, a picture to share, and
    ``report_files/``, what the page loads on demand. Plotly's script is in ``report_files/`` of the folder
    above, shared by all runs there. A comparison is ``comparison.html`` in the folder of the runs.

    Parameters
    ----------
    folders
        Of runs, at least one.
    language
        Default: that of the first run's sentence.
    inline
        Write one file that needs no other.
    to
        The file, instead of those above; it has all in it, as with ``inline``.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    BadFile
        If a folder is no run's, or was written by another version.
    StorageUnavailable
        If the disk is full or refuses; the run's result stands.
    """
    alone = inline or to is not None
    views = [view_run(folder, language=language) for folder in folders]
    first = folders[0]
    if len(views) > 1:
        path = to or first.parent / COMPARISON_FILE
        page = render_comparison(views, inline=alone)
    else:
        path = to or first / PAGE_FILE
        page = render_page(views[0], inline=alone)
    _write(path, page, shared=None if alone else first.parent / FOLDER, card=to is None and len(views) == 1)
    return path


def _write(path: Path, page: Page, *, shared: Path | None, card: bool) -> None:
    folder = path.parent / FOLDER
    with storage_errors(path.parent):
        if shared is not None:
            shared.mkdir(exist_ok=True)
            script = shared / plotly_name()
            if not script.is_file():
                write_atomic(script, plotly_script())
        if page.files:
            folder.mkdir(exist_ok=True)
        for old in folder.glob("*.js") if card else ():  # of a page with more in it
            if old.name not in page.files:
                old.unlink()
        for name, content in page.files.items():
            (folder / name).write_bytes(content)
        if card:
            write_atomic(path.parent / CARD_FILE, page.card.encode())
        write_atomic(path, page.html.encode())


def verify_page(file: Path, folder: Path | None = None) -> PageCheck:
    """Check a page against its run: its bytes are those that the folder gives, and the ledger is sound.

    Parameters
    ----------
    folder
        The run's. Default: that which the page is in.

    Raises
    ------
    BadFile
        If the file is no page of a run, or the folder is not the run's.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{file} cannot be read: {error}", file=str(file)) from error
    mark = _MARK.search(text[:_HEAD])
    if mark is None:
        raise BadFile(f"{file} is not the page of a run: it does not say of which run it is", file=str(file))
    run_id, language, form = mark.groups()
    folder = folder or file.parent
    if not (folder / MANIFEST_FILE).is_file():
        raise BadFile(
            f"{file} lies outside of a run's folder: name the run, quantgraph report {run_id} --verify FILE",
            file=str(file),
        )
    manifest = read_manifest(folder)
    if manifest.run_id != run_id:
        raise BadFile(
            f"{file} is the page of run {run_id}, and {folder} has {manifest.run_id}", file=str(file)
        )
    spoken: Language = "zh" if language == "zh" else "en"
    try:
        with Ledger(existing_ledger(manifest, folder)) as ledger:
            if ledger.has_run(run_id):
                ledger.check(run_id)
        page = render_page(view_run(folder, language=spoken), inline=form == "inline")
    except QuantGraphError as error:
        return PageCheck(run_id=run_id, ok=False, reason=error.message)
    if page.html == text:
        changed = [name for name, content in page.files.items() if _read(folder / FOLDER / name) != content]
        reason = f"{FOLDER}/{changed[0]} is missing or was changed" if changed else ""
        return PageCheck(run_id=run_id, ok=not changed, reason=reason)
    lines = zip(page.html.splitlines(), text.splitlines(), strict=False)
    number = next((at for at, (ours, theirs) in enumerate(lines, 1) if ours != theirs), 0)
    return PageCheck(
        run_id=run_id, ok=False, reason=f"line {number} is not what the run's folder gives: it was changed"
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
