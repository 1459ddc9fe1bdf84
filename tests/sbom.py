"""Writes the bill of materials: every package of the lock with its hashes and its licence, as CycloneDX JSON.

    python -m tests.sbom                          # `make sbom`: writes .build/sbom.json

The file is the same for the same lock and installed packages, so that two of them can be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: "


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of the lock. `marker` says where it is installed; None is everywhere."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str | None = None

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{re.sub('[-_.]+', '-', self.name).lower()}@{self.version}"


def locked(text: str) -> Iterator[Locked]:
    """Yield the packages of a lock. ValueError for a line that is not understood: nothing may be left out."""
    joined = text.replace(" \\\n", " \\")
    for line in joined.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _PACKAGE.match(line)
        hashes = tuple(_HASH.findall(line))
        if found is None or not hashes:
            raise ValueError(f"{LOCK.name} has a line without a version or without hashes: {line[:120]}")
        yield Locked(found["name"], found["version"], hashes, found["marker"])


def licences(package: Distribution) -> list[dict[str, Any]]:
    """Return the licences of an installed package as CycloneDX has them."""
    metadata: Any = package.metadata  # a message of an e-mail, with get: its type does not say so
    expression = metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    listed = metadata.get_all("Classifier") or []
    names = [
        classifier.rpartition(" :: ")[2]
        for classifier in listed
        if classifier.startswith(_CLASSIFIER) and classifier.count("::") > 1
    ]
    stated = (metadata.get("License") or "").strip().splitlines()
    # Some packages have the whole text of the licence here.
    if not names and len(stated) == 1 and stated[0] != "UNKNOWN":
        names = stated
    return [{"license": {"name": name}} for name in names]


def component(package: Locked) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        # One of these: each wheel and the source archive has its own.
        "properties": [{"name": "penstock:sha256", "value": value} for value in package.hashes],
    }
    if package.marker is not None:
        made["properties"].append({"name": "penstock:marker", "value": package.marker})
    if package.marker is not None and not Marker(package.marker).evaluate():
        return made  # it is not installed on this platform
    try:
        installed = distribution(package.name)
    except PackageNotFoundError:
        return made
    if installed.version != package.version:
        raise ValueError(f"{package.name} {installed.version} is installed, and the lock has {package.version}")
    found = licences(installed)
    return made | ({"licenses": found} if found else {})


def bill(lock: str, project: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the bill of materials of a lock."""
    name = project["name"]
    digest = hashlib.sha256(lock.encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{name} {version} {digest}')}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": name, "name": name, "version": version},
            "properties": [{"name": "penstock:lock-sha256", "value": digest}],
        },
        "components": [component(package) for package in locked(lock)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sbom")
    parser.add_argument("--output", type=Path, default=ROOT / ".build" / "sbom.json")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = bill(LOCK.read_text(encoding="utf-8"), project, str(project.get("version", "0")))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    unknown = ", ".join(component["name"] for component in made["components"] if "licenses" not in component)
    print(f"{len(made['components'])} packages in {arguments.output}, without a known licence: {unknown or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
