"""The start of a pipeline that creates the target tables of the tables that its source describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ingest import source_waits
from penstock.ingest.source_waits import waiting_for_source
from penstock.pipelines.config.load import parsed
from penstock.pipelines.job.build import ready
from penstock.pipelines.mapping.described_tables import DescribedTables
from penstock.table.catalog.catalog import Catalog


def test_a_stop_that_may_end_the_start_does_not_end_the_creation_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(f"{tmp_path}/lake")
    catalog.create_database("ods")
    catalog.create_table("ods.t", [("id", "BIGINT NOT NULL")], primary_keys=["id"])
    description = {
        "pipeline": {"name": "layer", "checkpoint": f"{tmp_path}/checkpoint"},
        "source": {"type": "table", "tables": ["ods.t"]},
        "sink": {"catalog": {"warehouse": f"{tmp_path}/lake"}, "database": "dwd"},
    }
    create, seen = DescribedTables.create, list[list[bool]]()

    def noted(tables: DescribedTables, *given: Any) -> None:
        seen.append(list(source_waits._contexts))
        create(tables, *given)

    monkeypatch.setattr(DescribedTables, "create", noted)
    with waiting_for_source():
        ready(parsed(description))
    assert seen == [[True, False]]
    assert catalog.table("dwd.t").schema.names == ["id"]
