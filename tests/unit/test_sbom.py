"""The bill of materials has every package of the lock, with what is known of it."""

from __future__ import annotations

import json
import re

import pytest

from tests.sbom import LOCK, bill, locked

TEXT = LOCK.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_package_of_the_lock_is_a_component_with_hashes() -> None:
    made = bill(TEXT, {"name": "penstock"}, "1")
    versions = re.findall(r"^([^ #]+)==([^ ;]+)", TEXT, re.MULTILINE)
    assert [(component["name"], component["version"]) for component in made["components"]] == versions
    hashes = re.findall(r"sha256:([0-9a-f]{64})", TEXT)
    kept = [item["value"] for component in made["components"] for item in component["properties"]]
    assert [value for value in kept if re.fullmatch("[0-9a-f]{64}", value)] == hashes
    assert len({component["purl"] for component in made["components"]}) == len(versions)
    [arrow] = [component for component in made["components"] if component["name"] == "pyarrow"]
    assert arrow["licenses"]
    assert arrow["purl"].startswith("pkg:pypi/pyarrow@")


@pytest.mark.slow
def test_equal_locks_give_equal_bills() -> None:
    texts = {json.dumps(bill(TEXT, {"name": "penstock"}, "1")) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    "line",
    ["numpy", "numpy==2.0", "numpy>=2 \\\n    --hash=sha256:" + "a" * 64, "git+https://x/y \\\n    --hash=sha256:1"],
)
def test_a_line_that_cannot_be_listed_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="without a version or without hashes"):
        list(locked(f"{line}\n"))


def test_an_environment_that_is_not_that_of_the_lock_is_refused() -> None:
    with pytest.raises(ValueError, match="is installed, and the lock has 0"):
        bill(f"pyarrow==0 \\\n    --hash=sha256:{'0' * 64}\n", {"name": "penstock"}, "1")
