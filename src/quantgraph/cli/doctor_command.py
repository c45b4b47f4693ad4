"""``quantgraph doctor``: whether this machine has what quantgraph needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.cells import cell_len

from quantgraph._util.texts import Language, Note
from quantgraph.cli.console import FAILED, AsJson, echo, echo_json, locale_language
from quantgraph.cli.health_checks import check_parts

if TYPE_CHECKING:
    from quantgraph.cli.health_checks import CheckedPart


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

    A line each, with what to do where it is not well. Exit status: 0 if all is well, 1 if not.
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
