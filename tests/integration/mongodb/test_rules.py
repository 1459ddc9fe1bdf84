"""Quality rules and transforms on documents, which need not have the columns that they name."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, SourceError
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.rules import ExpectConfig, LookupConfig, RouteConfig, TransformConfig
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import run
from tests.integration.mongodb.sync import MongoPlayground, MongoSync

pytestmark = pytest.mark.mongodb
RULE = ExpectConfig(source_table="play.t", condition="coalesce(cast(v as int), 0) < 50", action="drop", name="small")


def counted(spec: PipelineSpec) -> Counter[str]:
    found = Counter[str]()
    run(spec, on_batch=lambda _, report: found.update(report.passed_over))
    return found


def test_a_rule_on_a_column_accepts_deletes_and_documents_without_it(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_many([{"_id": number, "v": number * 10} for number in range(8)])
    sync = MongoSync(server, tmp_path)
    spec = sync.spec.model_copy(update={"expect": (RULE,)})
    assert counted(spec)["expect.drop.small"] == 3
    server.db.t.delete_one({"_id": 2})
    assert counted(spec)["expect.drop.small"] == 0
    server.db.t.insert_one({"_id": 9})
    run(spec)
    assert sorted(sync.rows("t")) == ["0", "1", "3", "4", "9"]


def test_a_filter_reads_null_where_no_document_of_a_batch_has_its_column(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.t.insert_many([{"_id": number, "v": number} for number in range(3)])
    sync = MongoSync(server, tmp_path)
    given = [TransformConfig(source_table="play.t", filter="v is null or v <> '1'", projection="*, upper(v) as w")]
    spec = sync.spec.model_copy(update={"transform": tuple(given)})
    run(spec)
    server.db.t.insert_one({"_id": 9, "u": "x"})
    run(spec)
    rows = {key: (row["w"], row["u"]) for key, row in sync.rows("t").items()}
    assert rows == {"0": ("0", None), "2": ("2", None), "9": (None, "x")}


def sha256(given: bytes) -> str:
    return hashlib.sha256(given).hexdigest()


def with_names(folder: Path) -> Table:
    """Make the dimension of the rule with a lookup."""
    catalog = Catalog(f"{folder}/warehouse")
    catalog.create_database("ods")
    columns = [("k", "STRING NOT NULL"), ("name", "STRING")]
    return catalog.create_table("ods.names", columns, primary_keys=["k"], options={"bucket": "1"})


def later_column(**update: Any) -> dict[str, Any]:
    """Return the sections of a pipeline with a transform of the only collection."""
    return {"transform": (TransformConfig(source_table="play.t", **update),)}


OF_RULES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("filter", later_column(filter="v is null or v <> '20'"), "v", {"1": None, "3": "30"}),
    ("projection", later_column(projection="*, upper(v) as w"), "w", {"1": None, "2": "20", "3": "30"}),
    ("mask", later_column(mask={"v": "sha256"}), "v", {"1": None, "2": sha256(b"20"), "3": sha256(b"30")}),
    (
        "lookup",
        later_column(lookup=(LookupConfig(table="ods.names", on={"v": "k"}, columns=("name",)),)),
        "name",
        {"1": None, "2": "twenty", "3": None},
    ),
    (
        "expectation",
        {"expect": (RULE.model_copy(update={"condition": "v is null or v <> '20'"}),)},
        "v",
        {"1": None, "3": "30"},
    ),
    ("computed column", {"sink": {"computed_columns": ("w=upper(v)",)}}, "w", {"1": None, "2": "20", "3": "30"}),
    (
        "route",
        {"route": (RouteConfig(source_table="play.t", sink_table="ods.t", add_columns={"v": "made"}),)},
        "v",
        {"1": "made", "2": "made", "3": "made"},
    ),
]


@pytest.mark.parametrize("table", [None, "t"], ids=["database", "table"])
@pytest.mark.parametrize(
    ("sections", "column", "values"), [case[1:] for case in OF_RULES], ids=[case[0] for case in OF_RULES]
)
def test_a_rule_sees_a_column_that_the_first_document_lacks(
    server: MongoPlayground,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    table: str | None,
    sections: dict[str, Any],
    column: str,
    values: dict[str, Any],
) -> None:
    """A column of a later document of the same batch, of a later batch, and at a start after which it is seen."""
    server.db.t.insert_one({"_id": 1, "u": 1})
    sync = MongoSync(server, tmp_path, table)
    names = with_names(tmp_path)
    with names.writer() as writer:
        writer.write(pa.table({"k": ["20"], "name": ["twenty"]}, schema=names.schema))
        writer.commit()
    update = {**sections, "sink": sync.spec.sink.model_copy(update=sections.get("sink", {}))}
    spec = sync.spec.model_copy(update=update)
    run(spec)
    assert {key: row.get(column) for key, row in sync.rows("t").items()} == {"1": values["1"]}
    noticed = caplog.text.count("event=column_not_seen")
    assert noticed == (0 if "route" in sections else 1)
    warnings = [finding.message for finding in checked_spec(spec) if "no row seen so far has" in finding.message]
    assert len(warnings) == noticed
    server.db.t.insert_many([{"_id": 2, "v": 20}, {"_id": 3, "v": 30}])
    run(spec)
    assert {key: row.get(column) for key, row in sync.rows("t").items()} == values


def test_documents_of_the_first_batch_give_a_rule_its_columns(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_many([{"_id": 1, "u": 1}, {"_id": 2, "v": 20}, {"_id": 3, "v": 30}])
    for _, sections, column, values in OF_RULES[:3]:
        sync = MongoSync(server, tmp_path / column / str(len(values)))
        run(sync.spec.model_copy(update=sections))
        assert {key: row.get(column) for key, row in sync.rows("t").items()} == values


def test_a_rule_on_a_column_that_was_not_specified_is_refused_at_the_start(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.t.insert_one({"_id": 1, "v": 1})
    conf = ["schema.start.mode=specified", "field.name=_id,v", "parser.path=$._id,$.v"]
    spec = MongoSync(server, tmp_path, "t", conf).spec
    for update in (
        {"expect": (RULE.model_copy(update={"condition": "vv < '5'"}),)},
        {"transform": (TransformConfig(source_table="play.t", filter="vv < '5'"),)},
    ):
        with pytest.raises(ConfigError, match="'vv', which is not a column"):
            run(spec.model_copy(update=update))


def test_check_and_run_refuse_a_history_that_documents_cannot_fill(server: MongoPlayground, tmp_path: Path) -> None:
    server.db.t.insert_one({"_id": 1})
    sync = MongoSync(server, tmp_path, flags=["--deletes", "history"])
    findings = [finding for finding in checked_spec(sync.spec) if finding.level == "error"]
    assert [finding.code for finding in findings] == [SourceError.exit_code]
    with pytest.raises(SourceError) as refused:
        run(sync.spec)
    assert findings[0].message == refused.value.message
    assert CatalogSettings.of(f"{tmp_path}/warehouse", {}).databases() == []


def test_a_database_without_collections_is_a_warning_of_check(server: MongoPlayground, tmp_path: Path) -> None:
    """With a misspelt name, the check said `0 tables to capture` and that the pipeline was ready."""
    server.db.t.insert_one({"_id": 1})
    sync = MongoSync(server, tmp_path, database="playy")
    warnings = [finding.message for finding in checked_spec(sync.spec) if finding.level == "warning"]
    assert [message for message in warnings if message.endswith("no table to capture so far")] == warnings != []
    sync.database = "play"
    assert [finding for finding in checked_spec(sync.spec) if finding.level == "warning"] == []


def test_check_warns_of_collections_without_the_images_that_a_pipeline_requires(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
    server.db.create_collection("u")
    sync = MongoSync(server, tmp_path)
    sync.conf = ["scan.full-changelog=true"]
    warnings = [finding.message for finding in checked_spec(sync.spec) if finding.level == "warning"]
    assert len([message for message in warnings if "play.u, wanted images" in message]) == 1
    assert "play.t" not in "".join(warnings)
