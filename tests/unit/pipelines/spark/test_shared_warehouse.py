"""Executors that do not share the driver's disk: nothing that only they can see is committed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, TableCorrupt
from penstock.pipelines.spark.shared_warehouse import check_shared, unshared
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.store import TableMissing

ELSEWHERE = "spark://master:7077"


def written(folder: Path) -> tuple[CatalogSettings, dict[str, list[CommitMessage]]]:
    """The files of a task that nobody has committed."""
    catalog = Catalog(str(folder))
    catalog.create_database("ods")
    table = catalog.create_table("ods.t", [("id", "BIGINT NOT NULL")], ["id"], options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(pa.table({"id": [1]}))
        messages = writer.prepare()
        writer.forget()
    return CatalogSettings.of(str(folder), {}), {"ods.t": list(messages)}


def test_files_that_only_an_executor_sees_are_refused(tmp_path: Path) -> None:
    warehouse, messages = written(tmp_path)
    check_shared(ELSEWHERE, warehouse, messages)
    (file,) = tmp_path.glob("ods.db/t/bucket-0/data-*")
    file.unlink()
    check_shared("local[2]", warehouse, messages)  # a local master has no other disk
    with pytest.raises(ConfigError, match="not on the driver's disk") as caught:
        check_shared(ELSEWHERE, warehouse, messages)
    assert caught.value.facts["file"] == str(file)


def test_a_table_that_only_the_driver_sees_is_named(tmp_path: Path) -> None:
    missing = TableMissing("there is no table", path=str(tmp_path))
    assert "does not see a table of the driver's disk" in str(unshared(missing, ELSEWHERE))
    assert unshared(missing, "local[2]") is missing
    for other in (TableMissing("there is no table", path=f"{tmp_path}/gone"), TableCorrupt("x", path=str(tmp_path))):
        assert unshared(other, ELSEWHERE) is other
