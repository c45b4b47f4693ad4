"""What quantgraph needs from its machine, part by part: whether each is well, and what to do if not.

``quantgraph doctor``: whether this machine has what quantgraph needs.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.cells import cell_len

from quantgraph._util.texts import Language, Note
from quantgraph.cli._console import FAILED, AsJson, echo, echo_json, locale_language
from quantgraph.errors import QuantGraphError, SandboxTooWeak

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from quantgraph.sandbox import IsolationLevel
    from quantgraph.settings import Role, Settings


_SECONDS = 6.0
"""The most that all requests take together; they go on side by side."""
_CALENDARS = {"XSHG": Note(zh="沪深北", en="Shanghai, Shenzhen, Beijing"), "XNYS": Note(zh="美股", en="US")}
_ENDS_SOON = dt.timedelta(days=30)
_LITTLE_SPACE = 200_000_000
_MAX_FILES = 200_000
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


@dataclass(frozen=True, kw_only=True)
class CheckedPart:
    """One part: ``remedy`` says what to do if it is not well, or what would be better."""

    name: str
    ok: bool
    text: Note
    remedy: Note | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[], CheckedPart]


def check_parts() -> list[CheckedPart]:
    """Check everything, in a few seconds; what fails or does not answer in time is not well."""
    from quantgraph.settings import load_settings

    calendar, versions = _examined("calendar", _calendar), _examined("versions", _versions)
    try:
        settings = load_settings()
    except QuantGraphError as error:
        return [_failed("settings", error), calendar, versions]
    sandbox = _examined("sandbox", partial(_sandbox, settings))
    folders = [
        _examined(name, partial(_folder, name, folder, f"QUANTGRAPH_{name.upper()}"))
        for name, folder in (("cache_dir", settings.cache_dir), ("runs_dir", settings.runs_dir))
    ]
    # After the others: threads that import the same modules at once may see them half made.
    asked = _side_by_side([*_models(settings), ("tushare", partial(_tushare, settings), _CHECK_TOKEN)])
    return [_settings(), sandbox, *asked, *folders, calendar, versions]


def _examined(name: str, check: Check) -> CheckedPart:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever fails is what the doctor is asked about
        return _failed(name, error)


def _failed(name: str, error: Exception) -> CheckedPart:
    # Only our own errors are known to hold no secret.
    line = error.line if isinstance(error, QuantGraphError) else f"failed: {type(error).__name__}"
    return CheckedPart(name=name, ok=False, text=Note(zh=line, en=line))


def _side_by_side(checks: list[tuple[str, Check, Note | None]]) -> list[CheckedPart]:
    """Run checks, each with its remedy, in threads that end with the process: some wait hangs for minutes."""
    found: dict[int, CheckedPart] = {}

    def examine(number: int, name: str, check: Check) -> None:
        found[number] = _examined(name, check)

    until = time.monotonic() + _SECONDS
    threads = [
        threading.Thread(target=examine, args=(number, name, check), daemon=True)
        for number, (name, check, _) in enumerate(checks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = Note(zh=f"{_SECONDS:g} 秒内没有回答", en=f"no answer within {_SECONDS:g} s")
    parts = [
        found.get(number) or CheckedPart(name=name, ok=False, text=late)
        for number, (name, _, _) in enumerate(checks)
    ]
    return [
        part if part.ok or part.remedy else replace(part, remedy=remedy)
        for part, (_, _, remedy) in zip(parts, checks, strict=True)
    ]


def _settings() -> CheckedPart:
    files = [Path(".env"), Path(os.environ.get("QUANTGRAPH_CONFIG") or "quantgraph.toml")]
    read = [str(file) for file in files if file.is_file()]
    places = ", ".join(read)
    text = Note(
        zh=f"来自环境变量{f'、{places}' if read else '和默认值'}",
        en=f"from the environment{f', {places}' if read else ' and defaults'}",
    )
    return CheckedPart(name="settings", ok=True, text=text, facts={"files": read})


def _sandbox(settings: Settings) -> CheckedPart:
    from quantgraph.sandbox import default_runner, is_at_least

    accepted = settings.code_isolation
    level: IsolationLevel = "full"
    reason = ""
    try:
        runner = default_runner(isolation="full", packages=tuple(settings.sandbox_packages))
        if error := runner.run(["1 + 1"], {}).error:
            raise error
    except SandboxTooWeak as error:
        level, reason = error.data["level"], f": {error.data['reason']}"
    ok = accepted == "trusted" or is_at_least(level, accepted)
    facts = {"level": level, "accepted": accepted}
    if accepted == "trusted":
        text = Note(
            zh=f"生成的代码在本进程中运行（QUANTGRAPH_CODE_ISOLATION=trusted）；本机可达到 {level}{reason}",
            en=f"generated code runs in this process (QUANTGRAPH_CODE_ISOLATION=trusted); this system has "
            f"{level}{reason}",
        )
    else:
        text = Note(zh=f"隔离级别 {level}{reason}", en=f"isolation {level}{reason}")
    remedy = Note(
        zh=f"若接受较弱的隔离，设 QUANTGRAPH_CODE_ISOLATION={level}，见 docs/sandbox.md",
        en=f"to accept less set QUANTGRAPH_CODE_ISOLATION={level}, see docs/sandbox.md",
    )
    return CheckedPart(name="sandbox", ok=ok, text=text, remedy=None if ok else remedy, facts=facts)


def _models(settings: Settings) -> list[tuple[str, Check, Note | None]]:
    """A check for each model that the roles have; what is built here is imported before the clock starts."""
    from quantgraph.llm import get_llm
    from quantgraph.settings import ROLES

    patient = settings.model_copy(update={"request_timeout": min(settings.request_timeout, _SECONDS)})
    roles: dict[str | None, list[Role]] = {}
    for role in ROLES:
        roles.setdefault(settings.model_for(role), []).append(role)
    checks: list[tuple[str, Check, Note | None]] = []
    for some in roles.values():
        try:
            model = get_llm(some[0], settings=patient)
        except QuantGraphError as error:  # it says what to set
            checks.append(("model", partial(_failed, "model", error), None))
        else:
            checks.append(("model", partial(_model, model, some), _CHECK_SERVER))
    return checks


def _model(model: BaseChatModel, roles: list[Role]) -> CheckedPart:
    """Send one short request to the model of the roles."""
    from quantgraph.llm import CallPolicy, KeylessPlanner, model_facts
    from quantgraph.settings import ROLES

    some = "" if len(roles) == len(ROLES) else f" ({', '.join(roles)})"
    facts: dict[str, Any] = {"roles": roles}
    if isinstance(model, KeylessPlanner):
        text = Note(
            zh=f"keyless{some}：没有模型，句子由内置的规则读取",
            en=f"keyless{some}: no model, sentences are read by built-in rules",
        )
        return CheckedPart(
            name="model", ok=True, text=text, remedy=_SET_KEY, facts=facts | {"model": "keyless"}
        )
    known = model_facts(model)
    begun = time.monotonic()
    attempts = CallPolicy(max_attempts=1).attempts(facts=known, what="request", check=lambda _wait: None)
    for attempt in attempts:
        with attempt:
            model.invoke("Reply with the word OK.", max_tokens=16)
    took = time.monotonic() - begun
    text = Note(
        zh=f"{known.name}{some}，{known.host}，{took:.1f} 秒内有回答",
        en=f"{known.name}{some} at {known.host} answered in {took:.1f} s",
    )
    facts |= {"model": known.name, "host": known.host, "seconds": round(took, 3)}
    return CheckedPart(name="model", ok=True, text=text, facts=facts)


def _tushare(settings: Settings) -> CheckedPart:
    """Ask tushare for one row of prices, which every token may read."""
    from quantgraph.data.tushare import ENDPOINTS, TushareClient

    token = settings.tushare_token
    if token is None:
        needed = settings.data_source == "tushare"
        text = Note(zh="没有令牌", en="no token")
        return CheckedPart(
            name="tushare", ok=not needed, text=text, remedy=_SET_TOKEN, facts={"token": False}
        )
    client = TushareClient(token=token.get_secret_value(), timeout=_SECONDS, max_wait=0)
    client.fetch(ENDPOINTS["daily"], {"ts_code": "000001.SZ", "trade_date": "20240102"})
    text = Note(zh="令牌有效，服务器有回答", en="the token is accepted, the server answers")
    return CheckedPart(name="tushare", ok=True, text=text, facts={"token": True})


def _folder(name: str, folder: Path, variable: str) -> CheckedPart:
    """Whether a folder, or the one that it will be made in, can be written."""
    place = folder.absolute()
    nearest = next(each for each in (place, *place.parents) if each.exists())
    facts: dict[str, Any] = {"folder": str(place), "exists": place.is_dir()}
    try:
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".doctor-") as trial:
            Path(trial, "file").write_bytes(bytes(4096))
    except OSError as error:
        why = error.strerror or type(error).__name__
        return CheckedPart(
            name=name,
            ok=False,
            text=Note(zh=f"{place} 不能写入：{why}", en=f"{place} cannot be written: {why}"),
            remedy=Note(zh=f"用 {variable} 另选文件夹", en=f"choose another folder with {variable}"),
            facts=facts | {"writable": False},
        )
    size, free = sum(_sizes(place)), shutil.disk_usage(nearest).free
    facts |= {"writable": True, "bytes": size, "free": free}
    zh, en = ("", "") if place.is_dir() else ("（用到时创建）", " (made when needed)")
    text = Note(
        zh=f"{place}{zh}，已用 {_amount(size)}，剩余 {_amount(free)}",
        en=f"{place}{en}, {_amount(size)} used, {_amount(free)} free",
    )
    remedy = Note(
        zh=f"清理磁盘，或用 {variable} 另选文件夹", en=f"make room, or choose another with {variable}"
    )
    ok = free >= _LITTLE_SPACE
    return CheckedPart(name=name, ok=ok, text=text, remedy=None if ok else remedy, facts=facts)


def _sizes(folder: Path) -> Iterator[int]:
    """Sizes of the files in a folder, of the first many."""
    files = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    for _, file in zip(range(_MAX_FILES), files, strict=False):
        with suppress(OSError):  # it was removed meanwhile
            yield file.lstat().st_size


def _amount(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _calendar() -> CheckedPart:
    from quantgraph.market import last_session

    ends = {exchange: last_session(exchange=exchange).date() for exchange in _CALENDARS}
    today = dt.date.today()  # noqa: DTZ011 - a day more or less does not matter
    texts = [(name, f"{ends[exchange]:%Y-%m-%d}") for exchange, name in _CALENDARS.items()]
    upgrade = Note(
        zh="交易日历将尽：pip install --upgrade exchange_calendars",
        en="the calendar ends: pip install --upgrade exchange_calendars",
    )
    return CheckedPart(
        name="calendar",
        ok=min(ends.values()) >= today,
        text=Note(
            zh="，".join(f"{name.zh}到 {day}" for name, day in texts),
            en="; ".join(f"{name.en} to {day}" for name, day in texts),
        ),
        remedy=upgrade if min(ends.values()) < today + _ENDS_SOON else None,
        facts={exchange: f"{end:%Y%m%d}" for exchange, end in ends.items()},
    )


def _versions() -> CheckedPart:
    from quantgraph.runs.folder import library_versions

    versions = library_versions()
    text = ", ".join(f"{name} {number}" for name, number in versions.items())
    return CheckedPart(name="versions", ok=True, text=Note(zh=text, en=text), facts=versions)


_LABELS = {
    "settings": Note(zh="设置", en="settings"),
    "sandbox": Note(zh="沙箱", en="sandbox"),
    "model": Note(zh="模型", en="model"),
    "tushare": Note(zh="tushare", en="tushare"),
    "cache_dir": Note(zh="缓存", en="cache"),
    "runs_dir": Note(zh="运行", en="runs"),
    "calendar": Note(zh="日历", en="calendar"),
    "versions": Note(zh="版本", en="versions"),
}
_WELL, _ILL = Note(zh="正常", en="ok"), Note(zh="有误", en="BAD")


def doctor(
    lang: Annotated[Literal["zh", "en"] | None, typer.Option(help="Language. Default: the locale's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the sandbox, the models (one short request each), tushare, folders, calendars and versions.

    A line each, with what to do where it is not well.
    """
    language = lang or locale_language()
    parts = check_parts()
    well = all(part.ok for part in parts)
    if as_json:
        echo_json({"ok": well, "checks": [_as_json(part, language) for part in parts]})
    else:
        width = max(cell_len(label.text(language)) for label in _LABELS.values())
        for part in parts:
            label = _LABELS[part.name].text(language)
            remedy = "" if part.remedy is None else _join(language) + part.remedy.text(language)
            state = (_WELL if part.ok else _ILL).text(language).ljust(3)
            padding = " " * (width - cell_len(label))
            echo(" ".join(f"{state}  {label}{padding}  {part.text.text(language)}{remedy}".splitlines()))
    if not well:
        raise typer.Exit(FAILED)


def _join(language: Language) -> str:
    return "；" if language == "zh" else "; "


def _as_json(part: CheckedPart, language: Language) -> dict[str, Any]:
    remedy = None if part.remedy is None else part.remedy.text(language)
    return {
        "name": part.name,
        "ok": part.ok,
        "text": part.text.text(language),
        "remedy": remedy,
        "facts": dict(part.facts),
    }
