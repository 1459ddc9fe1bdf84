"""What a start refuses, `check` refuses before: with the same message, and without changing anything."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.api.check_places import check_warehouse
from penstock.pipelines.api.run import run_here
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.file_catalog import FileCatalog

COLUMNS = [("id", "BIGINT NOT NULL"), ("city", "STRING"), ("score", "BIGINT")]
ROWS = [{"id": 1, "city": "Rome", "score": 1}]


@dataclass
class Lake:
    """A warehouse with two source tables, one without a changelog, and pipelines that read them."""

    folder: Path
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = Catalog(f"{self.folder}/lake")
        for name in ("ods", "dwd"):
            self.catalog.create_database(name)
        self.create("ods.orders", **{"changelog-producer": "lookup"})
        self.create("ods.unlogged")

    def create(self, name: str, columns: Any = None, keys: tuple[str, ...] = ("id",), **options: str) -> None:
        given = {"bucket": "1", **options} if keys else options
        table = self.catalog.create_table(name, columns or COLUMNS, primary_keys=list(keys), options=given)
        if name.startswith("ods."):
            with table.writer() as writer:
                writer.write(pa.Table.from_pylist(ROWS, schema=table.schema))
                writer.commit()

    def spec(self, tables: tuple[str, ...], sections: Mapping[str, Any]) -> PipelineSpec:
        default: dict[str, Any] = {
            "pipeline": {"name": "layer", "checkpoint": f"{self.folder}/checkpoint", "until": "caught-up"},
            "source": {"type": "table", "tables": [f"ods.{name}" for name in tables]},
            "sink": {"catalog": {"warehouse": f"{self.folder}/lake"}, "database": "dwd"},
        }
        merged = {
            name: {**default.get(name, {}), **section} if isinstance(section, dict) else section
            for name, section in sections.items()
        }
        return parsed({**default, **merged})

    def files(self) -> set[str]:
        return {str(path) for path in self.folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Refusal:
    """A pipeline that a start refuses: the tables that it reads, the tables that exist, and its sections."""

    sections: Mapping[str, Any]
    tables: tuple[str, ...] = ("orders",)
    before: Callable[[Lake], None] = lambda lake: None


def orders(*columns: tuple[str, str], keys: tuple[str, ...] = ("id",), **options: str) -> Callable[[Lake], None]:
    """Return the step that creates the target table before the pipeline."""
    return lambda lake: lake.create("dwd.orders", list(columns) or COLUMNS, keys, **options)


KEYED = {"merge-engine": "aggregation", "fields.score.aggregate-function": "sum", "bucket": "1"}
REFUSALS = {
    "old rows for an aggregate": Refusal({"sink": {"table-options": KEYED}}, ("unlogged",)),
    "old rows for a filter": Refusal(
        {"transform": [{"source-table": "ods.unlogged", "filter": "score > 5"}]}, ("unlogged",)
    ),
    "reset of no table": Refusal({"pipeline": {"reset": ["dwd.other"]}}),
    "nothing to resume from": Refusal({"pipeline": {"resume-from-tables": True}}),
    "history in a table without its columns": Refusal({"sink": {"deletes": "history"}}, before=orders()),
    "other columns of dead letters": Refusal(
        {"errors": {"bad-record": "dead-letter", "dead-letter": {"table": "dwd.orders"}}}, before=orders()
    ),
    "another primary key": Refusal({"sink": {"table": "orders", "primary-keys": ["city"]}}, before=orders()),
    "other partition keys": Refusal({"sink": {"table": "orders", "partition-keys": ["city"]}}, before=orders()),
    "an incompatible type": Refusal(
        {}, before=orders(("id", "BIGINT NOT NULL"), ("city", "DATE"), ("score", "BIGINT"))
    ),
    "several sources with different keys": Refusal(
        {"sink": {"table": "all"}},
        ("orders", "other"),
        before=lambda lake: lake.create(
            "ods.other", keys=("id", "score"), columns=[*COLUMNS[:2], ("score", "BIGINT NOT NULL")]
        ),
    ),
    "an option that one table cannot have": Refusal(
        {"sink": {"per-table": {"dwd.orders": {"fields.nope.aggregate-function": "sum"}}}}, before=orders()
    ),
    "metrics without their package": Refusal({"observe": {"metrics": "127.0.0.1:0"}}),
    "spans without their packages": Refusal({"observe": {"open-telemetry": "http://127.0.0.1:1"}}),
    "a lookup in a missing table": Refusal(
        {
            "transform": [
                {"source-table": "ods.orders", "lookup": [{"table": "dim.t", "on": {"id": "id"}, "columns": ["a"]}]}
            ]
        }
    ),
    "a rule on a missing column": Refusal({"expect": [{"source-table": "ods.orders", "condition": "nope > 1"}]}),
    "a source table that does not exist": Refusal({}, ("nope",)),
    "an unusable name": Refusal({"sink": {"naming": {"table-suffix": "$x"}}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSALS)
def test_check_refuses_what_a_start_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    refusal = REFUSALS[name]
    lake = Lake(tmp_path)
    refusal.before(lake)
    for package in ("prometheus_client", "opentelemetry.sdk.trace"):
        monkeypatch.setitem(sys.modules, package, None)
    spec = lake.spec(refusal.tables, refusal.sections)
    before = lake.files()
    errors = [finding for finding in checked_spec(spec) if finding.level == "error"]
    assert lake.files() == before
    with pytest.raises(PenstockError) as refused:
        run_here(spec)
    assert errors, refused.value
    assert any(error.code == refused.value.exit_code for error in errors), (refused.value.exit_code, errors)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["aggregation", "deduplicate"])
def test_rows_of_another_pipeline_are_named_where_rows_are_added(
    tmp_path: Path, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A second pipeline into a table of sums doubled them, and `check` said that no table exists yet."""
    lake = Lake(tmp_path)
    options = KEYED if engine == "aggregation" else {"bucket": "1"}
    first, second = (
        lake.spec(
            ("orders",),
            {"pipeline": {"name": name, "checkpoint": f"{tmp_path}/{name}"}, "sink": {"table-options": options}},
        )
        for name in ("first", "second")
    )
    run_here(first)
    for spec, named in ((first, False), (second, engine == "aggregation")):
        caplog.clear()
        said = [finding.message for finding in checked_spec(spec) if "rows that other jobs wrote" in finding.message]
        assert bool(said) == named
        assert not said or "dwd.orders" in said[0]
        assert "(first)" in "".join(said) or not named
        run_here(spec)
        assert any("event=rows_of_other_jobs" in record.message for record in caplog.records) == named


def test_a_warehouse_without_rights_is_named_and_not_the_file_that_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/lake/..probe-1.tmp")

    monkeypatch.setattr(FileCatalog, "check", refused)
    (found,) = check_warehouse(Lake(tmp_path).spec(("orders",), {}))
    assert found.message == f"{tmp_path}/lake is not writable: Permission denied"
