"""Stream readers under versions of Spark that pass neither the start of a batch nor a limit."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from penstock.ingest import spark_admission
from penstock.ingest.carried_errors import ErrorMark
from penstock.ingest.source import Limit, Offsets
from penstock.ingest.spark_admission import BoundedRun, RememberedStart
from penstock.ingest.spark_stream import ChangesStreamReader


@dataclass
class Numbers:
    """Counts to `total` in batches of two; each call of `initial_offsets` would begin elsewhere."""

    total: int
    limit: Limit = Limit(rows=2)  # noqa: RUF009 -- frozen
    begins: list[int] = field(default_factory=list)
    closed: bool = False

    def initial_offsets(self) -> Offsets:
        self.begins.append(len(self.begins))
        return {"at": self.begins[-1]}

    def available(self) -> Offsets:
        return {"at": self.total}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        end = min(start["at"] + (limit.rows or self.total), self.total if until is None else until["at"])
        return {"at": max(end, start["at"])}

    def at_barrier(self) -> bool:
        return False

    def inputs(self, start: Offsets, end: Offsets) -> list[Any]:
        return [(start["at"], end["at"])]

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array(range(*task), pa.int64())})

    def close(self) -> None:
        self.closed = True


def reader(numbers: Numbers, planned: Offsets | None = None, bounded: BoundedRun | None = None) -> RememberedStart:
    return RememberedStart(ChangesStreamReader(numbers, ErrorMark()), lambda: planned, bounded)


def test_batches_follow_each_other_and_keep_the_limit() -> None:
    adapted = reader(Numbers(5))
    assert [adapted.latestOffset()["at"] for _ in range(4)] == [2, 4, 5, 5]


def test_the_initial_offset_is_determined_once() -> None:
    numbers = Numbers(5)
    adapted = reader(numbers)
    # The order of Spark's calls at the first start of a query.
    assert adapted.latestOffset() == {"at": 2}
    assert adapted.initialOffset() == {"at": 0}
    assert numbers.begins == [0]


def test_a_query_that_restarts_begins_where_its_checkpoint_ends() -> None:
    numbers = Numbers(9)
    adapted = reader(numbers, planned={"at": 4})
    assert adapted.latestOffset() == {"at": 6}
    assert numbers.begins == []


def test_a_batch_that_was_planned_but_not_done_is_planned_again_first() -> None:
    adapted = reader(Numbers(9))
    (partition,) = adapted.partitions({"at": 2}, {"at": 5})
    (batch,) = adapted.read(partition)
    assert batch.column(0).to_pylist() == [2, 3, 4]
    assert adapted.latestOffset() == {"at": 7}


def test_a_bounded_run_ends_where_the_source_ended_when_it_began(tmp_path: Path) -> None:
    numbers, bounded = Numbers(3), BoundedRun(tmp_path / "end")
    adapted = reader(numbers, bounded=bounded)
    assert adapted.latestOffset() == {"at": 2}
    numbers.total = 100
    assert adapted.latestOffset() == {"at": 3}
    assert not bounded.is_caught_up
    assert adapted.latestOffset() == {"at": 3}
    assert bounded.is_caught_up


def test_the_first_batch_of_a_checkpoint_is_run_although_it_is_empty(tmp_path: Path) -> None:
    bounded = BoundedRun(tmp_path / "end")
    adapted = reader(Numbers(0), bounded=bounded)
    assert adapted.latestOffset() == {"at": 0}
    assert not bounded.is_caught_up
    assert adapted.latestOffset() == {"at": 0}
    assert bounded.is_caught_up


def test_a_bounded_run_without_anything_new_ends_at_once(tmp_path: Path) -> None:
    bounded = BoundedRun(tmp_path / "end")
    assert reader(Numbers(4), planned={"at": 4}, bounded=bounded).latestOffset() == {"at": 4}
    assert bounded.is_caught_up


class Nothing(Numbers):
    """A source without partitions: its offsets are empty."""

    def initial_offsets(self) -> Offsets:
        return {}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        return {}


def test_a_bounded_run_of_a_source_without_partitions_ends(tmp_path: Path) -> None:
    bounded = BoundedRun(tmp_path / "end")
    adapted = reader(Nothing(0), bounded=bounded)
    assert [adapted.latestOffset(), adapted.latestOffset()] == [{}, {}]
    assert bounded.is_caught_up


def test_the_end_of_the_query_closes_the_source() -> None:
    numbers = Numbers(1)
    reader(numbers).stop()
    assert numbers.closed


def loaded_without(monkeypatch: pytest.MonkeyPatch, missing: str) -> ModuleType:
    monkeypatch.setitem(sys.modules, missing, None)
    spec = importlib.util.spec_from_file_location("admission_of_old_spark", spark_admission.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_without_the_classes_of_spark_4_2_there_are_equal_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    old = loaded_without(monkeypatch, "pyspark.sql.streaming.datasource")
    assert spark_admission.PASSES_START
    assert not old.PASSES_START
    assert old.ReadMaxRows(3).max_rows == 3
    assert isinstance(old.ReadAllAvailable(), old.ReadLimit)
