"""Batches that are written in the process of the driver. What they write is tested with whole pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from penstock.errors import TableCorrupt
from penstock.ingest.source import NO_LIMIT
from penstock.pipelines.driver import local_runner
from penstock.pipelines.driver.local_runner import run_tasks
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.table_task_writer import TableTaskWriter
from penstock.pipelines.tasks.task_input import TaskInput
from tests.here import run
from tests.shop import Shop, insert


def planned(folder: Path) -> tuple[BatchReader, list[TaskInput]]:
    """Return a batch for a table that exists, which is not read yet."""
    shop = Shop(folder)
    shop.put("1.json", insert("orders", {"id": 1}))
    [driver] = run(shop.spec())
    start = driver.reader.initial_offsets()
    return driver.reader, driver.reader.inputs(start, driver.reader.latest_offsets(start, NO_LIMIT, None))


def test_rows_of_tables_whose_keys_do_not_move_are_not_placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def placed(*_: object) -> NoReturn:
        raise AssertionError("the step that finds the places of keys was run")

    reader, inputs = planned(tmp_path)
    monkeypatch.setattr(local_runner, "KeyPlacement", placed)
    [message] = run_tasks(reader, 1, inputs).messages["ods.orders"]
    assert [file.row_count for file in message.new_files] == [1]


def test_the_error_of_a_table_does_not_keep_its_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> NoReturn:
        raise TableCorrupt("the table fails")

    reader, inputs = planned(tmp_path)
    monkeypatch.setattr(TableTaskWriter, "write", write)
    [error] = run_tasks(reader, 1, inputs).failed.values()
    assert error.message == "the table fails"
    assert error.__traceback__ is None
