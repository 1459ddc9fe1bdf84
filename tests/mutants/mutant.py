"""A planted fault: a piece of the source and what replaces it, and a copy of the tree that has it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
# penstock.py finds the packages beside its own file, so a link to it would lead to the tree without the fault.
COPIED = ("penstock.py",)


class WrongMutant(ValueError):
    """Raised when a mutant does not fit the source tree."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted fault. One of `tests` must notice it, or without them a random story.

    Only stories that contain all words of `stories` are played, because the others cannot notice it. With both, the
    tests are the quick way, and `--stories` the long one.
    """

    name: str
    promise: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    stories: str | None = None

    def for_stories(self) -> Mutant:
        """Return the mutant without its tests, if stories can notice it."""
        return self if self.stories is None else replace(self, tests=())

    def place(self, sources: Mapping[Path, str]) -> Path:
        """Return the file that contains the old text; WrongMutant unless it occurs exactly once in the tree."""
        found = {path: text.count(self.old) for path, text in sources.items() if self.old in text}
        if sum(found.values()) != 1:
            places = ", ".join(f"{path} ({count} times)" for path, count in found.items()) or "nowhere"
            raise WrongMutant(f"{self.name}: the old text must occur exactly once in the tree, it is in {places}")
        return next(iter(found))

    def source(self, sources: Mapping[Path, str]) -> str:
        """Return the content of that file with the fault."""
        return sources[self.place(sources)].replace(self.old, self.new)

    def plant(self, folder: Path, sources: Mapping[Path, str]) -> None:
        """Make `folder` a copy of the tree with the fault, in which all other files are links."""
        place = self.place(sources)
        mirror(folder, place)
        (folder / place).unlink()
        (folder / place).write_text(self.source(sources), encoding="utf-8")


def mutants() -> list[Mutant]:
    """Return all mutants, file by file."""
    files = (tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("*.toml")))
    return [Mutant(**{**node, "tests": tuple(node.get("tests", ()))}) for file in files for node in file["mutant"]]


def source_tree() -> dict[Path, str]:
    """Return the text of every module of the packages, by its path in the repository."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["packages"]
    paths = [
        path for name in packages for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))
    ]
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in paths}


def mirror(folder: Path, place: Path) -> None:
    """Fill a folder with links to the tree, and with real folders on the way to `place`."""
    folder.mkdir(parents=True)
    for below in (Path(), *reversed(place.parents[:-1])):
        (folder / below).unlink(missing_ok=True) if below.parts else None
        (folder / below).mkdir(exist_ok=True)
        for path in (ROOT / below).iterdir():
            if path.name != "__pycache__":
                (folder / below / path.name).symlink_to(path)
    for name in COPIED:
        (folder / name).unlink()
        (folder / name).write_bytes((ROOT / name).read_bytes())
