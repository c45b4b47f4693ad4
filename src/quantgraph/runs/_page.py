"""The pages of runs: read from the run's folder, written with the same bytes again, and verified."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.files import MANIFEST_FILE, MOST_JSON, read_stored, storage_errors, write_atomic
from quantgraph._util.packages import wing
from quantgraph._util.texts import Language, language_of, without_places
from quantgraph.broker.accounts import Delisting, Split
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadFile, QuantGraphError
from quantgraph.page import (
    FOLDER,
    CallStory,
    Page,
    RunView,
    SessionStory,
    plotly_name,
    plotly_script,
    render_comparison,
    render_page,
)
from quantgraph.recording import Entry, Recorder
from quantgraph.rules import Rule, RuleEvaluator, in_words
from quantgraph.runs._outputs import PAGE_FILE, next_command, read_result
from quantgraph.runs.folder._folder import Manifest, existing_ledger, read_manifest, stored_data
from quantgraph.runtime.endings import closing_text
from quantgraph.sentences import RequestContext, read_request, write_code
from quantgraph.state import Snapshot
from quantgraph.subgraphs.signal import understanding_lines

_BARS = ("open", "high", "low", "close", "vol")
_HIDDEN = ("base_url", "class")
"""Last parts of names of a configuration that tell a place, or nothing to people."""
_PATHS = re.compile(  # "/data/prices/600519.csv"
    r"(?:^|(?<=[\s'\"`(\[=,，：；（\u4e00-\u9fff])|(?<=\\n))~?(?:/[\w.@+~-]+)+/(?=[\w.@+~-])", re.MULTILINE
)
"""Folders of an absolute path, in texts that also hold code and divisions."""
_DRAWINGS = 300
"""Executions of a run that its page draws; ``quantgraph logs --draw`` draws each."""


def view_run(
    folder: Path,
    *,
    language: Language | None = None,
    with_calls: bool = True,
    ledger: str | Path | None = None,
) -> RunView:
    """Gather what the page of a run shows."""
    manifest, result = read_manifest(folder), read_result(folder)
    if result is None:
        raise BadFile(
            f"{folder} has no result.json: the run goes on, or was killed; wait for its end, or resume it"
        )
    spoken = language or language_of(manifest.spec.question)
    traded: dict[str, Any] = {}
    calls: tuple[CallStory, ...] = ()
    stories: tuple[SessionStory, ...] = ()
    notes: Mapping[pd.Timestamp, Mapping[str, Any]] = {}
    head = ""
    try:
        place: str | Path | None = existing_ledger(manifest, folder, ledger)
    except BadFile:
        if result.get("account"):
            raise
        place = None  # a run may end before it has one
    if place is not None:
        with Ledger(place, read_only=True) as book:
            if book.has_run(manifest.run_id):
                traded, notes = _traded(book, manifest.run_id), book.notes(manifest.run_id)
                head = "{1} ({0})".format(*book.head(manifest.run_id))
    if place is not None and with_calls:
        with closing(Recorder(place, read_only=True).of(manifest.run_id)) as recording:
            calls, by_session = _calls(recording.entries(), _hidden_in(manifest, folder))
        stories = _stories(by_session, notes, place, manifest.run_id, spoken)
    panels, signal = _data(folder, result)
    shown = _placeless(result)
    ending, command = _ending(shown, spoken)
    return RunView(
        run_id=manifest.run_id,
        language=spoken,
        result=shown,
        closing=ending,
        resumed_by=command,
        decider=str(manifest.identity.configuration.get("decider", "")),
        labels={name: zh if spoken == "zh" else en for name, (zh, en) in manifest.labels.items()},
        understood=_understood(result, spoken),
        parameters=_parameters(manifest),
        hashes=_hashes(manifest, result, head),
        names=result.get("names") or {},
        bars=_bars(panels),
        signal=signal,
        indicators=_indicators_of(manifest.spec.question, _code(folder, result), panels, signal, spoken),
        stories=stories,
        calls=calls,
        code=_code(folder, result),
        missing=_missing(folder, result),
        **traded,
    )


def view_trades(folder: Path, result: Mapping[str, Any], place: str | Path) -> RunView:
    """The part of a view that the rows of its trades are made of, from a ledger that has the run."""
    run_id = str(result["run_id"])
    with Ledger(place, read_only=True) as ledger:
        traded = _traded(ledger, run_id)
    return RunView(
        run_id=run_id, language="en", result=result, bars=_bars(_data(folder, result)[0]), **traded
    )


def _traded(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """What the ledger tells a view: days, fills, refused orders, splits, delistings."""
    orders = ledger.orders(run_id)
    days = {day: f"{day:%Y-%m-%d}" for day in orders["trade_date"].unique()}
    orders = orders.assign(session=orders["trade_date"].map(days)).rename(columns={"ts_code": "symbol"})
    splits, delistings = (defaultdict[str, list[tuple[str, float]]](list) for _ in range(2))
    for event in ledger.event_records(run_id):
        if isinstance(event, Split):
            splits[event.symbol].append((f"{event.session:%Y-%m-%d}", float(event.after - event.before)))
        elif isinstance(event, Delisting):
            delistings[event.symbol].append((f"{event.session:%Y-%m-%d}", float(event.amount)))
    return {
        "days": ledger.days(run_id),
        "fills": orders.loc[orders["price"].notna(), list(RunView.FILL_COLUMNS)].reset_index(drop=True),
        "refused": _refused(orders[orders["code"] != ""]),
        "splits": splits,
        "delistings": delistings,
    }


def _refused(orders: pd.DataFrame) -> pd.DataFrame:
    side = orders["side"].where(orders["side"] != "", orders["wish"])
    message = orders["message"].map(_without_folders)
    table = orders.assign(side=side, quantity=orders["size"], message=message)
    return table[list(RunView.REFUSED_COLUMNS)].reset_index(drop=True)


def _calls(
    entries: Iterator[Entry], places: Sequence[str]
) -> tuple[tuple[CallStory, ...], dict[str, list[CallStory]]]:
    """The calls outside of sessions, and by session."""
    outside, inside = list[CallStory](), defaultdict[str, list[CallStory]](list)
    before: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        if entry.key.kind == "model":
            request = json.loads(entry.request)
            known = entry.key.path, str(entry.facts.get("role", ""))
            messages = request.get("messages", [])
            new = messages[_common(before.get(known, []), messages) :]
            call = _model_call(entry, new, places)
            before[known] = messages
        elif entry.key.kind in ("tool", "answer"):
            call = _other_call(entry, places)
        else:
            continue
        if entry.session:
            inside[entry.session].append(call)
        else:
            outside.append(call)
    return tuple(outside), inside


def _common(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> int:
    """How many messages a request has from the one before; a longer one may have shortened them."""
    of_one_role = all(old.get("role") == new.get("role") for old, new in zip(before, now, strict=False))
    if 0 < len(before) < len(now) and before[0] == now[0] and of_one_role:
        return len(before)
    count = 0
    while count < min(len(before), len(now)) and before[count] == now[count]:
        count += 1
    return count


def _model_call(entry: Entry, messages: Sequence[Mapping[str, Any]], places: Sequence[str]) -> CallStory:
    shown = partial(_text, places=places)
    reply = json.loads(entry.reply) if entry.reply else {}
    numbers = [entry.facts.get(name) for name in ("prompt_tokens", "completion_tokens")]
    return CallStory(
        path=entry.key.path,
        kind="model",
        role=str(entry.facts.get("role", "")),
        model=str(entry.facts.get("model", "")),
        asked=tuple((str(each.get("role", "")), shown(each.get("content"))) for each in messages),
        reply=shown(reply.get("content")) if entry.error is None else _error(entry.error),
        tools=tuple((str(tool["name"]), shown(tool["args"])) for tool in reply.get("tool_calls") or ()),
        failed=entry.error is not None,
        tokens=None if None in numbers else sum(map(int, filter(None, numbers))),
        seconds=entry.facts.get("seconds"),
    )


def _other_call(entry: Entry, places: Sequence[str]) -> CallStory:
    shown = partial(_text, places=places)
    failed = entry.error is not None
    return CallStory(
        path=entry.key.path,
        kind=entry.key.kind,
        role=str(entry.facts.get("role", "")),
        model="",
        asked=((entry.key.kind, shown(json.loads(entry.request))),),
        reply=_error(entry.error) if entry.error else shown(json.loads(entry.reply or '""')),
        failed=failed,
    )


def _error(error: Mapping[str, Any]) -> str:
    return without_places(str(error["message"]))


def _text(value: Any, places: Sequence[str]) -> str:
    """A JSON value as text for people, without these places."""
    value = _without_folders(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    for place in places:
        text = text.replace(place, "")
    return text


def _hidden_in(manifest: Manifest, folder: Path) -> list[str]:
    """Folders that a model or a tool may know: the one of the source's files, and the one of the runs."""
    places = [folder.absolute().parent, *(Path(each).parent for each in (manifest.source["open"],) if each)]
    return [f"{place}/" for place in places if place.is_absolute() and place != place.parent]


def _stories(
    calls: Mapping[str, Sequence[CallStory]],
    notes: Mapping[pd.Timestamp, Mapping[str, Any]],
    place: str | Path,
    run_id: str,
    language: Language,
) -> tuple[SessionStory, ...]:
    shown = {f"{session:%Y%m%d}": _without_folders(note) for session, note in notes.items()}
    if not (calls or shown):
        return ()
    before, held = dict[str, float](), dict[str, tuple[dict[str, float], dict[str, float]]]()
    with Ledger(place, read_only=True) as ledger:
        for result in ledger.results(run_id) if ledger.has_run(run_id) else ():
            shares = {name: float(each.quantity) for name, each in result.account.positions.items()}
            held[f"{result.session:%Y%m%d}"] = before, shares
            before = shares
        drawings = defaultdict[str, list[tuple[str, str]]](list)
        for each in ledger.executions(run_id)[:_DRAWINGS]:
            steps = tuple(
                replace(step, action=_without_folders(step.action), result=_without_folders(step.result))
                for step in each.steps
            )
            drawing = wing("execution").draw_execution(replace(each, steps=steps), language=language)
            drawings[f"{each.session:%Y%m%d}"].append((each.symbol, drawing.svg))
    return tuple(
        SessionStory(
            session=session,
            calls=tuple(calls.get(session, ())),
            notes=shown.get(session, {}),
            before=held.get(session, ({}, {}))[0],
            after=held.get(session, ({}, {}))[1],
            drawings=drawings[session],
        )
        for session in sorted({*calls, *shown})
    )


def _data(folder: Path, result: Mapping[str, Any]) -> tuple[Snapshot | None, pd.DataFrame | None]:
    """The run's last commit and its signal, as far as its data are there."""
    ref = result.get("data_ref")
    if not ref or not (folder / "data").is_dir():
        return None, None
    with suppress(QuantGraphError):
        panels = stored_data(folder).snapshot(ref)
        return panels, panels["signal"].get((result.get("signal") or {}).get("name", ""))
    return None, None


def _bars(panels: Snapshot | None) -> dict[str, pd.DataFrame]:
    known = {} if panels is None else panels["ohlcv"]
    return {name: known[name] for name in _BARS if name in known}


def _indicators_of(
    question: str, code: str, panels: Snapshot | None, signal: pd.DataFrame | None, language: Language
) -> Callable[[Sequence[str]], Mapping[str, pd.DataFrame]]:
    """The values of the sentence's rule, else the code's, of some symbols; none if its signal is another."""

    def computed(symbols: Sequence[str]) -> Mapping[str, pd.DataFrame]:
        if panels is None or signal is None or "close" not in panels["ohlcv"]:
            return {}
        named = [symbol for symbol in symbols if symbol in signal.columns]
        said = read_request(question, RequestContext()).strategy
        with suppress(QuantGraphError, IndexError):  # no rule, or a field that was not fetched
            written = re.findall(r"^# entry: (.+)\n# exit: (.+)$", code, re.MULTILINE)
            rule = write_code(said).rule if said else Rule.read(*written[0])
            data = RuleEvaluator(panels, list(signal.columns) if rule.across else named)
            made = data.signal(rule)
            ours = signal.reindex_like(made)
            if (ours.isna() | ((made == 1) == (ours == 1)) & ((made == -1) == (ours == -1))).all(axis=None):
                values = data.compared(rule).items()
                return {in_words(node, language): frame[named] for node, frame in values}
        return {}

    return computed


def _ending(result: Mapping[str, Any], language: Language) -> tuple[str, str]:
    """Of a run that is not done: what happened and what to do next, and the command that goes on."""
    because, command = result["ended_because"], f"quantgraph resume {result['run_id']}"
    if because == "done":
        return "", ""
    if because is None:
        return result.get("error", ""), command
    return closing_text(because, result["error"], language), next_command(result, command)


def _placeless(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result without folders and hosts in what it tells of the machine."""
    shown = {name: each if name == "question" else _without_folders(each) for name, each in result.items()}
    shown["history"] = [without_places(line) for line in shown.get("history") or ()]
    if error := shown.get("error"):
        shown["error"] = without_places(error)
    source = shown["source"]
    lines = [without_places(line) for line in source.get("provenance") or ()]
    shown["source"] = {**source, "name": without_places(source["name"]), "provenance": lines}
    return shown


def _without_folders(value: Any) -> Any:
    """A JSON value without the folders of the absolute paths in its texts."""
    if isinstance(value, str):
        return _PATHS.sub("", value)
    if isinstance(value, Mapping):
        return {name: _without_folders(each) for name, each in value.items()}
    return [_without_folders(each) for each in value] if isinstance(value, list | tuple) else value


def _understood(result: Mapping[str, Any], language: Language) -> list[str]:
    understanding = result.get("understanding")
    return understanding_lines(understanding, language) if understanding else []


def _parameters(manifest: Manifest) -> dict[str, Any]:
    return {
        name: without_places(value) if isinstance(value, str) else value
        for name, value in manifest.identity.configuration.items()
        if name.rpartition(".")[2] not in _HIDDEN
    }


def _hashes(manifest: Manifest, result: Mapping[str, Any], head: str) -> dict[str, str]:
    strategy = result.get("strategy") or {}
    found = {
        "run": manifest.identity.hash,
        "data": result.get("data_ref") or "",
        "strategy": strategy.get("code_hash", ""),
        "ledger": head,
    }
    return {name: value for name, value in found.items() if value}


def _missing(folder: Path, result: Mapping[str, Any]) -> list[str]:
    """What the run has left in its folder, and is not there any more."""
    left = {"data": result.get("data_ref"), "strategy.py": result.get("strategy")}
    return [name for name, was_left in left.items() if was_left and not (folder / name).exists()]


def _code(folder: Path, result: Mapping[str, Any]) -> str:
    content = read_stored(folder, "strategy.py", MOST_JSON) if result.get("strategy") else None
    return (content or b"").decode()


CARD_FILE = "report.svg"
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
    folders: Sequence[Path],
    *,
    language: Language | None = None,
    inline: bool = False,
    to: Path | None = None,
    ledger: str | Path | None = None,
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
        Default: the first run's.
    inline
        Write one file that needs no other.
    to
        The file, instead of those above; it has all in it, as with ``inline``.
    ledger
        File or database URL of a ledger that is not in the runs' folders.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    BadFile
        If a folder is not of a run, or was written by another version.
    StorageUnavailable
        If the disk is full or refuses; the run's result stands.
    """
    alone = inline or to is not None
    views = [view_run(folder, language=language, ledger=ledger) for folder in folders]
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
    for place in filter(None, (folder, shared)):
        if place.is_symlink():
            raise BadFile(f"{place} is a link, and nothing is written through it", path=str(place))
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
            write_atomic(folder / name, content)
        if card:
            write_atomic(path.parent / CARD_FILE, page.card.encode())
        write_atomic(path, page.html.encode())


def verify_page(file: Path, folder: Path | None = None, *, ledger: str | Path | None = None) -> PageCheck:
    """Check a page against its run: its bytes are those that the folder gives, and the ledger is sound.

    Parameters
    ----------
    folder
        The run's. Default: that which the page is in.
    ledger
        File or database URL of a ledger that is not in the folder.

    Raises
    ------
    BadFile
        If the file is not a page of a run, or the folder is not the run's.
    """
    try:
        text = (read_stored(file.parent, file.name) or b"").decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{file} cannot be read: {error}", file=str(file)) from error
    mark = _MARK.search(text[:_HEAD])
    if mark is None:
        raise BadFile(f"{file} is not the page of a run: it does not say of which run it is", file=str(file))
    run_id, language, form = mark.groups()
    folder = folder or file.parent
    if not (folder / MANIFEST_FILE).is_file():
        raise BadFile(
            f"{file} lies outside of a run's folder: name the run, quantgraph verify {run_id} --page FILE",
            file=str(file),
        )
    manifest = read_manifest(folder)
    if manifest.run_id != run_id:
        raise BadFile(
            f"{file} is the page of run {run_id}, and {folder} has {manifest.run_id}", file=str(file)
        )
    spoken: Language = "zh" if language == "zh" else "en"
    try:
        with Ledger(existing_ledger(manifest, folder, ledger), read_only=True) as book:
            if book.has_run(run_id):
                book.check(run_id)
        page = render_page(view_run(folder, language=spoken, ledger=ledger), inline=form == "inline")
    except QuantGraphError as error:
        return PageCheck(run_id=run_id, ok=False, reason=error.message)
    if page.html == text:
        found = {name: read_stored(folder, f"{FOLDER}/{name}") for name in page.files}
        changed = [name for name, content in page.files.items() if found[name] != content]
        reason = f"{FOLDER}/{changed[0]} is missing or was changed" if changed else ""
        return PageCheck(run_id=run_id, ok=not changed, reason=reason)
    lines = zip(page.html.splitlines(), text.splitlines(), strict=False)
    number = next((at for at, (ours, theirs) in enumerate(lines, 1) if ours != theirs), 0)
    return PageCheck(
        run_id=run_id, ok=False, reason=f"line {number} is not what the run's folder gives: it was changed"
    )
