"""``quantgraph doctor``: whether this machine has what quantgraph needs, and what to do if not."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from quantgraph._util.packages import entries, find_entry, is_own, package_of
from quantgraph._util.texts import Note, say
from quantgraph.cli._console import FAILED, AsJson, echo, echo_json, locale_language
from quantgraph.errors import QuantGraphError, StorageUnavailable

if TYPE_CHECKING:
    from quantgraph.settings import Role, Settings

_KINDS = ("deciders", "sources", "tools", "news")
_SECONDS = 6.0
"""How long each request is waited for."""
_SET_KEY = Note(
    zh="要用模型，设 OPENAI_API_KEY（其他服务器另设 OPENAI_BASE_URL、QUANTGRAPH_MODEL）",
    en="for a model set OPENAI_API_KEY, for another server also OPENAI_BASE_URL and QUANTGRAPH_MODEL",
)
_CHECK_SERVER = Note(
    zh="检查网络、代理、OPENAI_API_KEY、OPENAI_BASE_URL 和 QUANTGRAPH_MODEL；"
    "QUANTGRAPH_MODEL=keyless 不需要它们",
    en="check network, proxy, OPENAI_API_KEY, OPENAI_BASE_URL and QUANTGRAPH_MODEL; "
    "QUANTGRAPH_MODEL=keyless needs none of them",
)
_SET_TOKEN = Note(
    zh="要用 tushare 的数据，设 TUSHARE_TOKEN（见 https://tushare.pro）",
    en="for tushare's data set TUSHARE_TOKEN, from https://tushare.pro",
)
_CHECK_TOKEN = Note(zh="检查网络和 TUSHARE_TOKEN", en="check the network and TUSHARE_TOKEN")
_CHOOSE_FOLDER = Note(zh="用 QUANTGRAPH_RUNS_DIR 另选文件夹", en="choose another with QUANTGRAPH_RUNS_DIR")


@dataclass(frozen=True, kw_only=True)
class CheckedPart:
    """One part: ``remedy`` says what to do if it is not well, or what would be better."""

    name: str
    ok: bool = True
    text: Note
    remedy: Note | None = None


def check_parts() -> Iterator[CheckedPart]:
    """Check one part after the other; one whose check fails is not well."""
    from quantgraph.settings import load_settings

    try:
        settings = load_settings()
    except QuantGraphError as error:
        yield _failure("settings", error)
        return
    yield _examine("sandbox", partial(_sandbox, settings))
    for roles in _roles_by_model(settings):
        yield _examine("model", partial(_model, settings, roles), _CHECK_SERVER)
    yield _examine("tushare", partial(_tushare, settings), _CHECK_TOKEN)
    yield _examine("runs_dir", partial(_runs_dir, settings), _CHOOSE_FOLDER)
    for kind in _KINDS:
        brought = [each for each in entries(f"quantgraph.{kind}") if not is_own(each)]
        if brought:
            yield _examine(kind, partial(_brought, kind, brought))


def _examine(name: str, check: Callable[[], CheckedPart], remedy: Note | None = None) -> CheckedPart:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever fails is what the doctor is asked about
        return _failure(name, error, remedy)


def _failure(name: str, error: Exception, remedy: Note | None = None) -> CheckedPart:
    # Only our own errors are known to hold no secret.
    line = error.line if isinstance(error, QuantGraphError) else f"failed: {type(error).__name__}"
    return CheckedPart(name=name, ok=False, text=Note(zh=line, en=line), remedy=remedy)


def _sandbox(settings: Settings) -> CheckedPart:
    from quantgraph.sandbox import default_runner

    level = settings.code_isolation
    if level != "trusted":
        result = default_runner(isolation=level, packages=tuple(settings.sandbox_packages)).run(["1"], {})
        if result.error:
            raise result.error
        level = result.isolation
    return CheckedPart(name="sandbox", text=Note(zh=f"隔离级别 {level}", en=f"isolation {level}"))


def _roles_by_model(settings: Settings) -> list[list[Role]]:
    from quantgraph.settings import ROLES

    roles: dict[str | None, list[Role]] = {}
    for role in dict.fromkeys((*ROLES, *(settings.models.keys() - {"all"}))):
        roles.setdefault(settings.model_for(role), []).append(role)
    return list(roles.values())


def _model(settings: Settings, roles: list[Role]) -> CheckedPart:
    """Send one short request to the model of the roles."""
    from quantgraph.llm import CallPolicy, KeylessPlanner, get_llm, model_facts
    from quantgraph.settings import ROLES

    some = "" if len(roles) >= len(ROLES) else f" ({', '.join(roles)})"
    patient = settings.model_copy(update={"request_timeout": min(settings.request_timeout, _SECONDS)})
    model = get_llm(roles[0], settings=patient)
    if isinstance(model, KeylessPlanner):
        text = Note(
            zh=f"keyless{some}：没有模型，句子由内置的规则读取",
            en=f"keyless{some}: no model, sentences are read by built-in rules",
        )
        return CheckedPart(name="model", text=text, remedy=_SET_KEY)
    known, begun = model_facts(model), time.monotonic()
    for attempt in CallPolicy(max_attempts=1).attempts(facts=known, what="request", check=lambda _wait: None):
        with attempt:
            model.invoke("Reply with the word OK.", max_tokens=16)
    took = time.monotonic() - begun
    text = Note(
        zh=f"{known.name}{some}，{known.host}，{took:.1f} 秒内有回答",
        en=f"{known.name}{some} at {known.host} answered in {took:.1f} s",
    )
    return CheckedPart(name="model", text=text)


def _tushare(settings: Settings) -> CheckedPart:
    """Ask tushare for one row of prices, which every token may read."""
    from quantgraph.data.tushare import ENDPOINTS, TushareClient

    if settings.tushare_token is None:
        needed, text = settings.data_source == "tushare", Note(zh="没有令牌", en="no token")
        return CheckedPart(name="tushare", ok=not needed, text=text, remedy=_SET_TOKEN)
    client = TushareClient(token=settings.tushare_token.get_secret_value(), timeout=_SECONDS, max_wait=0)
    client.fetch(ENDPOINTS["daily"], {"ts_code": "000001.SZ", "trade_date": "20240102"})
    text = Note(zh="令牌有效，服务器有回答", en="the token is accepted, the server answers")
    return CheckedPart(name="tushare", text=text)


def _brought(kind: str, brought: Sequence[EntryPoint]) -> CheckedPart:
    """Name what other packages bring, which is not imported; of two of a name neither can be used."""
    for each in brought:
        find_entry(f"quantgraph.{kind}", each.name)
    named = ", ".join(f"{each.name} ({package_of(each)})" for each in brought)
    return CheckedPart(name=kind, text=Note(zh=f"其他软件包提供：{named}", en=f"of other packages: {named}"))


def _runs_dir(settings: Settings) -> CheckedPart:
    """Write into the folder of runs, or into the one that it will be made in."""
    place = settings.runs_dir.absolute()
    nearest = next(each for each in (place, *place.parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".doctor-") as trial:
            Path(trial, "file").write_bytes(bytes(4096))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise StorageUnavailable(f"{place} cannot be written: {why}") from error
    return CheckedPart(name="runs_dir", text=Note(zh=f"{place} 可写入", en=f"{place} can be written"))


def doctor(
    lang: Annotated[Literal["zh", "en"] | None, typer.Option(help="Language. Default: the locale's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the sandbox, the models (one short request each), tushare and the folder of runs.

    A line each, with what to do where it is not well.
    """
    language, parts = lang or locale_language(), []
    for part in check_parts():
        text = part.text.text(language)
        remedy = part.remedy.text(language) if part.remedy else None
        parts.append({"name": part.name, "ok": part.ok, "text": text, "remedy": remedy})
        if not as_json:
            mark = say(language, zh="正常", en="ok ") if part.ok else say(language, zh="有误", en="BAD")
            advice = say(language, zh=f"；{remedy}", en=f"; {remedy}") if remedy else ""
            echo(" ".join(f"{mark}  {part.name:8}  {text}{advice}".splitlines()))
    well = all(part["ok"] for part in parts)
    if as_json:
        echo_json({"ok": well, "checks": parts})
    if not well:
        raise typer.Exit(FAILED)
