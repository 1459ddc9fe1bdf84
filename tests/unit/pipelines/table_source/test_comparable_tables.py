"""`penstock verify` of a pipeline whose source is a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import SourceError
from penstock.ingest.source import Limit, PastUnknown
from penstock.pipelines.commands.main import main
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.table_source.comparable_tables import TableComparison
from tests.unit.pipelines.table_source.test_source import LOGGED, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def comparison(lake: Lake) -> TableComparison:
    found = connector(lake.spec).comparable(lake.spec.source, request_of(lake.spec))
    assert isinstance(found, TableComparison)
    return found


def verified(lake: Lake, capsys: pytest.CaptureFixture[str], code: int, *words: str, **sections: Any) -> str:
    """Return what the command prints, and check its exit code."""
    description = {
        "pipeline": {"name": "layer", "checkpoint": f"{lake.folder}/checkpoint"},
        "source": {"type": "table", "tables": ["ods.orders"]},
        "sink": {"catalog": {"warehouse": f"{lake.folder}/lake"}, "database": "dwd"},
        **sections,
    }
    file = lake.folder / "layer.yaml"
    file.write_text(yaml.safe_dump({"version": 1, **description}))
    capsys.readouterr()
    assert main(["verify", str(file), "--wait", "0", *words]) == code
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        LOGGED,
        {"bucket": "2"},
        {"bucket": "1", "changelog-producer": "full-compaction", "sequence.field": "score"},
        {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ],
    ids=str,
)
def test_equal_tables_are_equal_while_the_source_continues(
    lake: Lake, capsys: pytest.CaptureFixture[str], options: dict[str, Any]
) -> None:
    lake.create("orders", options)
    for _ in range(3):
        lake.change("orders")
    lake.run("orders")
    count, newest = len(lake.rows("dwd.orders")), lake.table("ods.orders").snapshots[-1].id
    lake.change("orders")  # not read by the pipeline yet
    out = verified(lake, capsys, 0)
    assert out == f"equal    dwd.orders: {count} rows at snapshot {newest} of ods.orders\n"


def test_rows_that_differ_are_found(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create("orders", LOGGED)
    lake.write("orders", [{"id": number, "city": "a", "score": number} for number in range(5)])
    lake.run("orders")
    lake.write_into("dwd.orders", [{"id": 3, "city": "b", "score": 3}, {"id": 9, "city": "b", "score": 9}])
    out = verified(lake, capsys, 1)
    assert "1 extra, 1 changed" in out
    assert "changed  id=3" in out
    assert "extra  id=9" in out


def test_each_name_in_tables_must_be_a_table_of_the_pipeline(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name beside a right one would count as verified."""
    lake.create("orders", LOGGED)
    lake.change("orders")
    lake.run("orders")
    assert verified(lake, capsys, 0, "--tables", "orders,dwd.orders").startswith("equal    dwd.orders")
    verified(lake, capsys, 2, "--tables", "orders,order")


def test_filters_are_applied_to_the_rows_of_the_source(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create("orders", LOGGED)
    lake.write("orders", [{"id": number, "city": "a", "score": number} for number in range(5)])
    rules = [{"source-table": "ods.*", "filter": "score < 3"}]
    lake.run("orders", transform=rules)
    assert verified(lake, capsys, 0, transform=rules).startswith("equal    dwd.orders: 3 rows")


def test_an_aggregation_is_not_compared(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create("orders", LOGGED)
    lake.change("orders", deletes=False)
    sink = {
        "catalog": {"warehouse": f"{lake.folder}/lake"},
        "database": "dwd",
        "table-options": {"merge-engine": "aggregation", "bucket": "1"},
    }
    lake.run("orders", sink=sink)
    capsys.readouterr()
    verified(lake, capsys, 2, sink=sink)


def test_it_is_an_error_if_no_table_can_be_compared(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """As before the first run: a script would take an exit code of 0 for equal tables."""
    for name in ("orders", "items"):
        lake.create(name, LOGGED)
        lake.change(name)
    source = {"type": "table", "tables": ["ods.orders", "ods.items"]}
    assert verified(lake, capsys, 2, source=source).count("skipped") == 2
    assert '"equal": false' in verified(lake, capsys, 2, "--json", source=source)


def test_a_table_whose_rows_are_still_being_read_is_compared_later(lake: Lake) -> None:
    lake.create("orders", {"bucket": "5"})
    lake.change("orders", 200, deletes=False)
    lake.run("orders")
    source, compared = build.ready(lake.spec).source, comparison(lake)
    with pytest.raises(SourceError, match="still being read") as caught:
        compared.newest([source.latest_offsets({}, Limit(rows=10))])
    assert caught.value.retryable
    assert compared.newest([]) is None


@pytest.mark.slow
def test_a_snapshot_that_expired_cannot_be_compared(lake: Lake) -> None:
    lake.create("orders", LOGGED)
    lake.change("orders")
    lake.run("orders")
    compared = comparison(lake)
    point = compared.newest([build.ready(lake.spec).source.latest_offsets({}, Limit())])
    assert point is not None
    for _ in range(3):
        lake.change("orders")
    lake.table("ods.orders").expire_snapshots(retain_max=1, retain_min=1, older_than=2**60)
    with pytest.raises(PastUnknown, match="no longer has the snapshot"):
        list(compared.rows_at(compared.tables()[0], point))


def test_a_table_that_was_dropped_is_missing_beside_others_that_are_equal(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "clients"):
        lake.create(name, LOGGED)
        lake.write(name, [{"id": 1, "city": "a", "score": 1}])
    tables = {"source": {"type": "table", "tables": ["ods.orders", "ods.clients"]}}
    lake.run("orders", "clients")
    assert "equal    dwd.clients" in verified(lake, capsys, 0, **tables)
    lake.catalog.drop_table("dwd.orders")
    out = verified(lake, capsys, 1, **tables)
    assert "equal    dwd.clients" in out
    assert "missing  dwd.orders: the pipeline has filled the table, and it does not exist any more" in out
    assert verified(lake, capsys, 1).startswith("missing  dwd.orders: ")
    answer = json.loads(verified(lake, capsys, 1, "--json"))
    assert not answer["equal"]
    assert [(table["table"], table["is_missing"]) for table in answer["tables"]] == [("dwd.orders", True)]


def test_a_table_that_no_batch_has_filled_yet_is_skipped(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("orders", "clients"):
        lake.create(name, LOGGED)
        lake.write(name, [{"id": 1, "city": "a", "score": 1}])
    lake.run("orders")
    out = verified(lake, capsys, 0, source={"type": "table", "tables": ["ods.orders", "ods.clients"]})
    assert "skipped  dwd.clients: " in out
