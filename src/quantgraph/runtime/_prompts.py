"""Prompts that a caller gives in place of ours: what a node sends, with the placeholders that it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from string import Formatter
from typing import Any

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadOption

Prompt = str | Callable[[str], str]

NODES = ("reflection", "data_fetch", "signal_generate", "validate", "clarify")


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """The prompts of a graph's nodes, see :class:`~quantgraph.runtime.Resources`."""

    prompts: Mapping[str, Prompt] | None = None

    def prompt(self, node: str, ours: str) -> str:
        """Return what a node sends: the caller's prompt, or what the caller makes of ours.

        Raises
        ------
        BadOption
            If it is no text, or has other placeholders than ours.
        """
        given = (self.prompts or {}).get(node)
        if given is None:
            return ours
        text = given(ours) if callable(given) else given
        if not isinstance(text, str):
            raise _bad(node, f"is a {type(text).__name__}; it must be a text")
        wanted, found = _placeholders(node, ours), _placeholders(node, text)
        if wanted != found:
            lacks, unknown = sorted(wanted - found), sorted(found - wanted)
            said = [f"lacks {{{lacks[0]}}}"] if lacks else []
            said += [f"has {{{unknown[0]}}}, which the node does not fill"] if unknown else []
            names = ", ".join(f"{{{name}}}" for name in sorted(wanted))
            raise _bad(node, f"{' and '.join(said)}; it must have {names}; other braces are {{{{ and }}}}")
        return text

    @property
    def prompt_values(self) -> dict[str, Any]:
        """What of them is part of a run's identity: a hash of each text, and of what each function adds.

        Raises
        ------
        BadOption
            If there is no such node.
        """
        for node in self.prompts or {}:
            if node not in NODES:
                raise _bad(node, f"is of no node; the nodes are {', '.join(NODES)}")
        return {f"prompts.{node}": _value(given) for node, given in (self.prompts or {}).items()}


def _value(given: Prompt) -> str:
    if isinstance(given, str):
        return content_hash(given)
    name = getattr(given, "__qualname__", type(given).__name__)
    with suppress(Exception):  # not each function takes an empty text
        name += f" {content_hash(given(''))}"
    return name


def _placeholders(node: str, text: str) -> set[str]:
    try:
        return {name for _, name, _, _ in Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise _bad(node, f"cannot be filled ({error}); braces of its own are {{{{ and }}}}") from None


def _bad(node: str, problem: str) -> BadOption:
    return BadOption(f"prompts[{node!r}] {problem}", parameter="prompts")
