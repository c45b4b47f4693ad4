"""Help in groups, and wrong calls in one line: plain text, so that nothing from outside is obeyed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

from quantgraph._util.packages import entries

GROUPS: Mapping[str, Sequence[str]] = {
    "Run a sentence": ("run", "resume"),
    "Look at runs": ("show", "runs", "compare", "logs"),
    "Check": ("data", "audit", "evidence", "verify", "replay", "ledger"),
    "Agents and servers": ("trader", "mcp"),
    "This machine": ("doctor",),
}
"""The commands as help lists them."""
MOVED = {"signal": "run --signal-only", "report": "show"}
"""Names of commands that have become another."""


class CommandGroup(TyperGroup):
    """The commands in :data:`GROUPS`; a name that is none is refused with the nearest one."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """The names as help and completion list them."""
        return [name for names in GROUPS.values() for name in names if name in self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """A section a group; the first sentence of each command, whole."""
        for title, names in GROUPS.items():
            with formatter.section(title):
                there = [(name, self.commands[name]) for name in names if name in self.commands]
                formatter.write_dl([(name, first_sentence(command.help)) for name, command in there])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer does; of a name that has become another, say so."""
        if args and args[0] in MOVED:
            ctx.fail(f"there is no command {args[0]!r}; it is now: quantgraph {MOVED[args[0]]}")
        return super().resolve_command(ctx, args)


INSTALLED = "(those installed)"
"""Stands in a help for the names of deciders, which are looked up when the help is shown."""


def _list_installed() -> str:
    return ", ".join(sorted({each.name for each in entries("quantgraph.deciders")}))


class PanelCommand(TyperCommand):
    """A command whose options are listed in panels, in the order in which the panels first appear."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then a section a panel; those without one come last."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or ""
            if record is not None:
                name, text = record
                text = text.replace(INSTALLED, _list_installed()) if INSTALLED in text else text
                panels.setdefault(str(panel), []).append((name, text))
        others = panels.pop("", [])
        panels["Other options" if len(panels) > 1 else "Options"] = others
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def first_sentence(text: str | None) -> str:
    """The first sentence of a help text, on one line.

    >>> first_sentence("List runs, newest first. And more.")
    'List runs, newest first.'
    """
    line = " ".join((text or "").split("\n\n")[0].split())
    head, stop, _ = line.partition(". ")
    return head + "." if stop else line


def usage_line(error: Any) -> str:
    """A wrong call in one line: what is wrong, the nearest name, and where help is."""
    line = re.sub(r"Value error, |, unable to parse.*", "", " ".join(error.format_message().split())).rstrip(
        "."
    )  # "Value error, start is after end"
    wrong = getattr(error, "option_name", None)
    if wrong == "--verify":
        line = "No such option: --verify; it is now: quantgraph verify RUN --page FILE"
    elif wrong and error.ctx is not None and "Did you mean" not in line:
        known = [name for each in error.ctx.command.params for name in each.opts]
        if near := get_close_matches(wrong, known, 1):
            line = f"No such option: {wrong}. Did you mean {near[0]!r}?"
    command = error.ctx.command_path if error.ctx is not None else "quantgraph"
    return f"{line[:1].lower()}{line[1:]}  (help: {command} --help)"
