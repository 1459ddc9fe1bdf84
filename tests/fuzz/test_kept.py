"""An input that failed is named by its seed, is kept, and is tried first in later runs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.fuzz import mutations
from tests.fuzz.kept import SEEDS, keep_failed, kept_seeds
from tests.fuzz.mutations import held, seeds
from tests.nightly import ROOT

TEST = "tests/fuzz/test_texts.py::test_a_changed_text_is_read_or_refused[sql]"


def test_seeds_of_failed_inputs_are_kept_by_test(tmp_path: Path) -> None:
    file = tmp_path / "seeds.json"
    file.write_text("{}")
    line = f"FAILED {TEST} - AssertionError: seed 17: a raw KeyError ('a') from 'x'"
    keep_failed([line, line, line.replace("17", "18"), "FAILED tests/fuzz/test_x.py::test_y - assert 1 == 2"], file)
    assert kept_seeds(TEST, file) == [17, 18]
    assert kept_seeds("tests/fuzz/test_other.py::test_y", file) == []


def test_kept_seeds_are_of_tests_that_exist() -> None:
    for test in json.loads(SEEDS.read_text()):
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / "tests/fuzz" / file).read_text()


def test_a_run_begins_with_kept_seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "kept_seeds", lambda test: [4711] if test == request.node.nodeid else [])
    monkeypatch.delenv("PENSTOCK_FUZZ_SEED", raising=False)
    first = next(seeds(request, 2, 2))
    assert first.random() == random.Random(4711).random()
    with pytest.raises(AssertionError, match=r"^seed 4711: a raw ZeroDivisionError"):
        held(lambda: 1 / 0, "x")


def test_a_failure_is_repeated_by_its_seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_FUZZ_SEED", "12")
    assert [chance.random() for chance in seeds(request, 5, 5)] == [random.Random(12).random()]
