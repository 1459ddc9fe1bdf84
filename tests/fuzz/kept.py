"""The seeds of inputs that once failed: each run of a test begins with those that `corpus/seeds.json` has for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

SEEDS = Path(__file__).with_name("corpus") / "seeds.json"
_FAILED = re.compile(r"^FAILED tests/fuzz/(\S+\.py::.+?) - .*?\bseed (\d+):")


def kept_seeds(test: str, file: Path = SEEDS) -> list[int]:
    """Return the kept seeds of a test, which is named by its file and its name."""
    found: list[int] = json.loads(file.read_text(encoding="utf-8")).get(test.removeprefix("tests/fuzz/"), [])
    return found


def keep_failed(lines: Iterable[str], file: Path = SEEDS) -> None:
    """Add the seeds that the last lines of pytest name."""
    kept: dict[str, list[int]] = json.loads(file.read_text(encoding="utf-8"))
    for line in lines:
        if found := _FAILED.match(line):
            seeds = kept.setdefault(found[1], [])
            seeds += [int(found[2])] if int(found[2]) not in seeds else []
    file.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
