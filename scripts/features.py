"""Hold FEATURES.toml: each file in one row, no row above its budget, no sum that rises.

python scripts/features.py               the rows with what they measure, beside their budgets
python scripts/features.py --check       print what breaks the table, and fail
python scripts/features.py --tests core  what pytest leaves out to test the core alone; for wings, a wing or a
                                         row: the paths to test
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
FILE = "FEATURES.toml"
SOURCE, TESTS = "src/quantgraph", "tests"
MOST_ROWS = 40
CORE = "core"
GRANTED = {"reserved block engine": 600}
"""Lines that a sum was granted after its table began: US shares, finer prices, whole plans in arrays."""
Kind = Literal["src", "tests"]
Table = Mapping[str, Any]
_FOLDERS: Mapping[Kind, str] = {"src": SOURCE, "tests": TESTS}


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One row; ``src`` are paths below the package, ``tests`` below the tests, ``lines`` its budgets."""

    name: str
    wing: str
    src: tuple[str, ...]
    tests: tuple[str, ...]
    promise: str
    lines: Mapping[Kind, int]

    @property
    def group(self) -> str:
        """Whose sum it counts to."""
        return CORE if self.wing == CORE else "wings"


def features(table: Table) -> list[Feature]:
    """The rows of a table."""
    return [
        Feature(
            name=row["name"],
            wing=row.get("wing", CORE),
            src=tuple(row["src"]),
            tests=tuple(row["tests"]),
            promise=row["promise"],
            lines={"src": row["src_lines"], "tests": row["tests_lines"]},
        )
        for row in table["feature"]
    ]


def read(text: str) -> Table:
    """A table of its text."""
    return tomllib.loads(text)


def owner(rows: Iterable[Feature], path: str, kind: Kind) -> Feature | None:
    """The row with the longest path that leads to a file: ``agents/trader`` before ``agents``."""
    found = {
        len(place): row
        for row in rows
        for place in getattr(row, kind)
        if place in {".", path} or path.startswith(f"{place}/")
    }
    return found[max(found)] if found else None


def files(root: Path, kind: Kind) -> list[Path]:
    """The Python files of the package or of its tests, from their folder."""
    folder = root / _FOLDERS[kind]
    return sorted(path.relative_to(folder) for path in folder.rglob("*.py"))


def measured(rows: Sequence[Feature], root: Path = ROOT) -> dict[tuple[str, Kind], int]:
    """Lines by row and kind."""
    lines: Counter[tuple[str, Kind]] = Counter()
    for kind, folder in _FOLDERS.items():
        for path in files(root, kind):
            row = owner(rows, path.as_posix(), kind)
            if row:
                lines[row.name, kind] += len((root / folder / path).read_text(encoding="utf-8").splitlines())
    return lines


def broken(root: Path = ROOT) -> list[str]:
    """What breaks the table, a sentence each."""
    table = read((root / FILE).read_text(encoding="utf-8"))
    rows = features(table)
    return [*_broken_rows(rows, root), *_above(table, rows, root), *_risen(root)]


def _broken_rows(rows: Sequence[Feature], root: Path) -> Iterator[str]:
    if len(rows) > MOST_ROWS:
        yield f"{len(rows)} rows, at most {MOST_ROWS}: join two"
    for kind, folder in _FOLDERS.items():
        places = Counter(place for row in rows for place in getattr(row, kind))
        yield from (f"{folder}/{place} is in {n} rows" for place, n in places.items() if n > 1)
        yield from (
            f"{folder}/{place} of a row is not there"
            for place in places
            if not (root / folder / place).exists()
        )
        yield from (
            f"{folder}/{path} is in no row: add it to one in {FILE}"
            for path in files(root, kind)
            if owner(rows, path.as_posix(), kind) is None
        )
    for row in rows:
        file, _, words = row.promise.partition(": ")
        if not (root / file).is_file() or words not in (root / file).read_text(encoding="utf-8"):
            yield f"{row.name}: {file} does not say {words!r}, which promises it"


def _above(table: Table, rows: Sequence[Feature], root: Path) -> Iterator[str]:
    lines = measured(rows, root)
    for row in rows:
        for kind in _FOLDERS:
            found, most = lines.get((row.name, kind), 0), row.lines[kind]
            if found > most:
                yield f"{row.name}: {found:,} lines of {kind}, at most {most:,}: take lines out of it"
    for name, found in sums(rows).items():
        most = table["sums"][name] + _reserved(table, rows, name)
        if found > most:
            yield f"the budgets of {name} are {found:,} lines, at most {most:,}: lower another row"


def sums(rows: Iterable[Feature]) -> dict[str, int]:
    """Budgets of the core, of the wings, and of their tests."""
    found = Counter(dict.fromkeys(("core", "wings", "core_tests", "wings_tests"), 0))
    for row in rows:
        found[row.group] += row.lines["src"]
        found[f"{row.group}_tests"] += row.lines["tests"]
    return dict(found)


def _reserved(table: Table, rows: Iterable[Feature], name: str) -> int:
    """Lines on top of a sum: of the reserved rows that are there, at most what is reserved."""
    kept: Mapping[str, int] = table.get("reserved", {}).get(name.removesuffix("_tests"), {})
    kind: Kind = "tests" if name.endswith("_tests") else "src"
    return sum(min(kept[row.name], row.lines[kind]) for row in rows if row.name in kept)


def _risen(root: Path) -> Iterator[str]:
    """What rose from one version of the table to the next, committed or not."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return  # an archive has no history to be held against
    commits = _git(root, "log", "--reverse", "--format=%H", "--", FILE).split()
    versions = [(commit[:10], read(_git(root, "show", f"{commit}:{FILE}"))) for commit in commits]
    changed = [_git(root, "show", "--format=", "--name-only", commit).splitlines() for commit in commits]
    versions.append(("this change", read((root / FILE).read_text(encoding="utf-8"))))
    changed.append(_git(root, "diff", "--name-only", "HEAD").splitlines())
    for (_, old), (where, new), paths in zip(versions, versions[1:], changed[1:], strict=False):
        yield from (f"{where}: {line}" for line in _risen_from(old, new, paths))


def _risen_from(old: Table, new: Table, paths: Iterable[str]) -> Iterator[str]:
    before, after = ({**table["sums"], **_flat(table.get("reserved", {}))} for table in (old, new))
    for name, most in after.items():
        inside = name.replace("wings", CORE)  # what leaves the core may go to a wing
        left = before[inside] - after[inside] if inside != name and inside in after else 0
        if most > max(before.get(name, 0) + max(0, left), GRANTED.get(name, 0)):
            yield f"the sum {name} rises to {most:,}, and a sum never rises"
    code = [path for path in paths if path.endswith(".py") and path.startswith(("src/", "tests/"))]
    budgets = {(row.name, kind): n for row in features(old) for kind, n in row.lines.items()}
    for row in features(new):
        for kind, most in row.lines.items():
            if code and most > budgets.get((row.name, kind), most):
                yield (
                    f"{row.name}: the budget of {kind} rises beside {code[0]}; budgets change in a commit of "
                    "their own"
                )


def _flat(reserved: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {f"reserved {name}": n for rows in reserved.values() for name, n in rows.items()}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={root}", *arguments]  # whoever made the folder
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def paths_to_test(name: str, root: Path) -> list[str]:
    """What pytest is given: for the core the wings' paths to leave out, for a wing or row its own paths."""
    rows = features(read((root / FILE).read_text(encoding="utf-8")))
    wanted = [row for row in rows if name in {row.name, row.wing, row.group} and name != CORE]
    if name == CORE:
        wanted = [row for row in rows if row.group == "wings"]
    if not wanted:
        names = ", ".join(dict.fromkeys(each for row in rows for each in (row.wing, row.name)))
        raise SystemExit(f"{name} is no part of {FILE}; there are wings, {names}")
    found = [
        f"{folder}/{place}"
        for row in wanted
        for kind, folder in _FOLDERS.items()
        for place in getattr(row, kind)
    ]
    return [f"--ignore={path}" for path in found] if name == CORE else found


def main() -> None:
    """Print the rows, what breaks them, or paths of tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="print what breaks the table, and fail")
    parser.add_argument("--tests", metavar="NAME", help="core, wings, or the name of a wing or row")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    given = parser.parse_args()
    if given.tests:
        print(*paths_to_test(given.tests, given.root))
        return
    if given.check:
        found = broken(given.root)
        print(*found, sep="\n", end="\n" if found else "")
        raise SystemExit(bool(found))
    table = read((given.root / FILE).read_text(encoding="utf-8"))
    rows = features(table)
    lines = measured(rows, given.root)
    for row in rows:
        figures = (f"{lines.get((row.name, kind), 0):7,} of {row.lines[kind]:7,}" for kind in _FOLDERS)
        print(f"{row.name:20} {row.wing:13}", *figures)
    for name, most in sums(rows).items():
        print(f"{name:20} {most:,} of {table['sums'][name]:,}")


if __name__ == "__main__":
    main()
