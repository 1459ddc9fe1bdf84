"""Build hook: the packages are folders at the root of the repository, and are imported as penstock.<folder>.

`[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml contains the only list of them. A wheel gets them
below penstock/. An editable install, mypy and editors get .build/, a tree of links to the same files:
`python hatch_build.py` creates it.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
LINKS = ".build"


def installed_paths(packages: list[str]) -> dict[str, str]:
    """Return the path in the wheel of each file or folder of the repository."""
    below = {name: f"penstock/{name}" for name in ["py.typed", *packages]}
    return {"penstock.py": "penstock/__init__.py", "pyspark_penstock.py": "pyspark_penstock.py", **below}


def create_links(root: Path, packages: list[str]) -> None:
    """Create links at the installed paths below .build/; remove links of an earlier list."""
    tree = root / LINKS
    shutil.rmtree(tree / "penstock", ignore_errors=True)
    for source, installed in installed_paths(packages).items():
        link = tree / installed
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path(*[".."] * len(Path(installed).parts)) / source)


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # the parameter is for hooks that configure
    """Lays out the packages of a wheel, or links them for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            create_links(Path(self.root), self.config["packages"])
        else:
            build_data["force_include"].update(installed_paths(self.config["packages"]))


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    create_links(ROOT, settings["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["packages"])
