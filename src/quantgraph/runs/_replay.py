"""Replaying a run from its record.

Stand-ins for models, source, code process and person raise an error when they are used.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.files import find_run_folder
from quantgraph.agents import as_decider
from quantgraph.broker import Decider, ModelDecider, SessionResult
from quantgraph.broker.ledger import IMPORTED, Ledger, Opening
from quantgraph.errors import BadFile, LedgerConflict, QuantGraphError, RunDiverged, StorageUnavailable
from quantgraph.recording import Entry, Recorder, Recording, no_network
from quantgraph.runs._execute import check_resources, execute_run, opened_run, thread_state
from quantgraph.runs._identity import (
    check_same_decider,
    code_hashes,
    not_recorded,
    recorded_decider,
    recorded_on_clarify,
)
from quantgraph.runs._outputs import read_result, save_outputs
from quantgraph.runs._result import RunResult
from quantgraph.runs.folder._folder import (
    Manifest,
    existing_ledger,
    make_run_folder,
    read_manifest,
    stored_data,
)
from quantgraph.runs.verification._verification import (
    ReplayDifference,
    check_recorded_commits,
    compare_execution_logs,
    compare_ledgers,
    compare_results,
    compare_signals,
    compare_strategies,
    without_places,
)
from quantgraph.runtime import Resources, merge_resources, new_saver, run_database_path
from quantgraph.sandbox import CodeResult
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import ROLES, Role, Settings, load_settings

_UNFINISHED = frozenset({None, "cancelled"})
"""``ended_because`` of runs that were stopped: they are compared as far as they got."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayResult:
    """Outcome of a replay.

    Attributes
    ----------
    run_id
        Name of the run, and of its replay.
    differences
        What differs from the recorded run, the first of each kind; empty for a run that replays.
    divergence
        The first request that is not in the record, with a diff; None if all are.
    changed_code
        Files of this package that differ from the run's. It is replayed all the same: they may explain
        the differences.
    other_versions
        Which versions of Python and the libraries have changed, as a sentence; empty if none has.
    result
        As :func:`~quantgraph.runs.run_strategy` returns it, made anew; without a folder if nothing is kept.
    folder
        Where the new ledger, signal, strategy and result are; None if they are not kept.
    """

    run_id: str
    differences: tuple[ReplayDifference, ...]
    divergence: RunDiverged | None
    changed_code: tuple[str, ...]
    other_versions: str
    result: RunResult
    folder: Path | None

    @property
    def identical(self) -> bool:
        """Whether ledger, execution log, signal, strategy, result and requests equal the run's."""
        return not self.differences

    def __repr__(self) -> str:
        """One line, with the first difference."""
        parts = [f"run_id={self.run_id!r}", f"identical={self.identical}"]
        parts += [f"differences={len(self.differences)}: {each.line[:200]}" for each in self.differences[:1]]
        return f"ReplayResult({', '.join(parts)})"


def replay(
    run: str | Path,
    *,
    decider: Decider | str | None = None,
    out: str | Path | None = None,
    resources: Resources | None = None,
) -> ReplayResult:
    """Execute a run again from its record alone, and compare the outcome with the recorded one.

    No model, source, code process or key is needed, and the network is closed. The run's decider trades
    anew. A run that was stopped is replayed as far as it got.

    Parameters
    ----------
    run
        A run's folder, or its name in ``runs_dir`` of the settings.
    decider
        The one that the run was begun with. Default: ``run.json`` tells how to make a ``SignalRule``, and
        names an installed one. A file is run only if it is named here.
    out
        Where to keep what is made anew, in a folder of the run's name. Default: nothing is kept.
    resources
        Settings, and the place of a ledger that is not in the run's folder.

    Raises
    ------
    BadOption
        If there is no such run, or ``out`` has a folder of its name.
    BadFile
        If ``run.json`` or ``result.json`` cannot be read, the ledger or the data of the run are missing, or
        the data were changed.
    RunMismatch
        If the decider is not the one that the run was begun with.
    """
    resources = merge_resources(resources, decider=as_decider(decider))
    check_resources(resources)
    settings = resources.settings or load_settings()
    folder = find_run_folder(run, settings.runs_dir)
    manifest, recorded = read_manifest(folder), read_result(folder) or {"ended_because": None}
    place = existing_ledger(manifest, folder, resources.ledger_place)
    has_data = recorded.get("strategy") or recorded.get("account")
    if has_data and not (folder / "data").is_dir():
        raise BadFile(f"{folder / 'data'} is missing, the data of run {manifest.run_id}", path=str(folder))
    decider = resources.decider or recorded_decider(manifest.identity, manifest.decider)
    check_same_decider(manifest.run_id, manifest.identity, decider)
    with ExitStack() as stack:
        new_folder = stack.enter_context(_new_folder(manifest, out))
        stack.enter_context(no_network())  # before the first place is opened
        recorder = Recorder(place, mode="replay", read_only=True)
        recording = stack.enter_context(closing(recorder.of(manifest.run_id)))
        entries = list(recording.entries())
        stand_ins = replace(
            _stand_ins(manifest, entries, settings),
            model=replay_models(entries, ModelDecider.of(decider).roles),
            recorder=recorder,
            decider=decider,
            store=stored_data(folder),
            opening=_opening(place, manifest.run_id),
        )
        result = _execute(manifest, new_folder, stand_ins, failed=recorded.get("state") == "failed")
        divergence = _divergence(manifest, recording, recorded)
        differences = [*_record_differences(recording, entries, divergence)]
        if divergence is None:
            differences += _compare(manifest, recorded, result, old=folder, new=new_folder, ledger=place)
        if differences:
            check_recorded_commits(folder, entries)  # a changed commit explains them
    now = replace(manifest.identity, code=code_hashes())
    return ReplayResult(
        run_id=manifest.run_id,
        differences=tuple(differences),
        divergence=divergence,
        changed_code=tuple(each.name for each in manifest.identity.differences(now)),
        other_versions=manifest.other_versions,
        result=RunResult(without_places(result) if out is None else result),
        folder=new_folder if out is not None else None,
    )


@contextmanager
def _new_folder(manifest: Manifest, out: str | Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="quantgraph-replay-") as scratch:
        folder = Path(out or scratch) / manifest.run_id
        make_run_folder(folder)
        yield folder


def _stand_ins(manifest: Manifest, entries: Sequence[Entry], settings: Settings) -> Resources:
    name, synthetic = manifest.source["name"], manifest.source["synthetic"]
    kind = DatedReplaySource if any(map(_lists_names_by_date, entries)) else ReplaySource
    unlimited = {"budget": None, "session_budget": None, "prices": None, "llm_cache": "off"}
    settings = manifest.recorded_settings(settings).model_copy(update=unlimited)
    return Resources(
        settings=settings,
        source=kind(name, synthetic=synthetic),
        on_clarify=recorded_on_clarify(manifest.spec, entries),
        checkpointer=new_saver(),
        runner=ReplayCodeRunner(),
    )


def _opening(place: str | Path, run_id: str) -> Opening | None:
    """What enters the sessions that the run began with and another program traded; None without any."""
    imported = list[SessionResult]()
    with Ledger(place, read_only=True) as ledger, suppress(LedgerConflict, LookupError, ValueError):
        if ledger.has_run(run_id):  # one that was changed is compared, and named, later
            imported += takewhile(lambda session: session.decider == IMPORTED, ledger.results(run_id))
    return (lambda book, name, _market: book.commit_days(name, imported)) if imported else None


def _lists_names_by_date(entry: Entry) -> bool:
    return entry.key.kind == "source" and '"method":"names_on"' in entry.request


def _execute(manifest: Manifest, folder: Path, resources: Resources, *, failed: bool) -> dict[str, Any]:
    """Execute the run in its new folder; an expected failure becomes its result."""
    with opened_run(manifest.spec, manifest.run_id, folder, resources) as opened:
        task, thread = manifest.graph_input, manifest.run_id
        try:
            return execute_run(manifest, folder, opened, task=task, thread=thread)
        except Exception as error:
            if isinstance(error, StorageUnavailable) or not (failed or isinstance(error, QuantGraphError)):
                raise
            # A run that was stopped asks for more than is recorded: its state at that request is compared.
            save_outputs(
                folder, manifest.spec.question, thread_state(opened.graph, thread), opened.resources.store
            )
            return read_result(folder) or {}


def _divergence(manifest: Manifest, recording: Recording, recorded: Mapping[str, Any]) -> RunDiverged | None:
    """The first request that is not in the record, unless it is where the run was stopped."""
    found = recording.replay_lookup and recording.replay_lookup.divergence
    if not found or (recorded["ended_because"] in _UNFINISHED and not _unused(recording)):
        return None
    also = manifest.other_versions
    return RunDiverged(f"{found.message}; {also}", **found.data) if also else found


def _unused(recording: Recording) -> list[Entry]:
    """Recorded requests that the replay did not make."""
    return recording.replay_lookup.unused_entries() if recording.replay_lookup else []


def _record_differences(
    recording: Recording, entries: Sequence[Entry], divergence: RunDiverged | None
) -> Iterator[ReplayDifference]:
    """Where record and replay diverge; otherwise an unused request, and one that was changed."""
    if divergence:
        place = f"{divergence.data['path']} number {divergence.data['seq']}"
        yield ReplayDifference(export="record", place=place, replayed=divergence.message)
        return
    changed = (entry for entry in entries if content_hash(entry.request) != entry.key.digest)
    for entry in _unused(recording)[:1]:
        yield _entry_difference(entry, f": {entry.request[:200]}")
    for entry in islice(changed, 1):
        yield _entry_difference(entry, " that was changed afterwards")


def _entry_difference(entry: Entry, what: str) -> ReplayDifference:
    place = f"{entry.key.path} number {entry.key.seq}"
    return ReplayDifference(export="record", place=place, recorded=f"a {entry.key.kind} request{what}")


def _compare(
    manifest: Manifest,
    recorded: Mapping[str, Any],
    result: Mapping[str, Any],
    *,
    old: Path,
    new: Path,
    ledger: str | Path,
) -> Iterator[ReplayDifference]:
    whole = recorded["ended_because"] not in _UNFINISHED
    made = run_database_path(new.parent, new.name)
    with Ledger(ledger, read_only=True) as old_ledger, Ledger(made) as new_ledger:
        found = compare_ledgers(old_ledger, new_ledger, manifest.run_id, whole=whole)
        # Which sessions were committed is read from the journal, which must be sound for that.
        yield from found or compare_execution_logs(old_ledger, new_ledger, manifest.run_id)
    if whole or (old / "strategy.py").is_file():
        yield from compare_signals(old / "signal.parquet", new / "signal.parquet")
        yield from compare_strategies(old / "strategy.py", new / "strategy.py")
    if whole:
        yield from compare_results(recorded, result)


class _Model(BaseChatModel):
    model_name: str
    base_url: str | None = None

    @property
    def _llm_type(self) -> str:
        return "quantgraph-recorded"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        not_recorded(f"model {self.model_name}, with {len(messages)} messages")


class _ToolModel(_Model):
    def bind_tools(self, *_: Any, **__: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self


def replay_models(entries: Iterable[Entry], roles: Iterable[Role] = ()) -> dict[Role, BaseChatModel]:
    """A model for each role with the name and the address of the recorded one; it refuses each call.

    Its kind is of the recorded use, so that the choice between tools and text comes out as it did.
    """
    requests: dict[str, list[dict[str, Any]]] = {role: [] for role in (*ROLES, *roles)}
    for entry in entries:
        if entry.key.kind == "model":
            requests.setdefault(entry.facts.get("role", ""), []).append(json.loads(entry.request))
    return {role: _model_of(asked) for role, asked in requests.items() if role}


def _model_of(requests: Sequence[Mapping[str, Any]]) -> BaseChatModel:
    if not requests:
        return _ToolModel(model_name="none")
    binds_tools = any(request["tools"] for request in requests)
    kind = _ToolModel if binds_tools else _Model
    return kind(model_name=requests[0]["model"], base_url=requests[0]["base_url"])


class ReplaySource:
    """A source that refuses each call."""

    def __init__(self, name: str, *, synthetic: bool) -> None:
        self.name = name
        self.synthetic = synthetic

    def _call(self, *_: Any, **__: Any) -> Any:
        not_recorded(f"the source {self.name}")

    sessions = symbols = names = members = bars = indicators = index_bars = _call


class DatedReplaySource(ReplaySource):
    """A source with lists by date that refuses each call."""

    symbols_on = names_on = ReplaySource._call  # noqa: SLF001 - its base is of this module


class ReplayCodeRunner:
    """A code runner that refuses each call."""

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:  # noqa: ARG002
        """Raise ``RunDiverged``."""
        not_recorded(f"a process for {len(cells)} cells of code")
