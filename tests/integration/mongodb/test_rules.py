"""Quality rules and transforms on documents, which need not have the columns that they name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.rules import ExpectConfig, TransformConfig
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


def test_a_rule_on_a_column_that_no_document_has_is_refused_at_the_start(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.t.insert_one({"_id": 1, "v": 1})
    spec = MongoSync(server, tmp_path).spec
    for update in (
        {"expect": (RULE.model_copy(update={"condition": "vv < '5'"}),)},
        {"transform": (TransformConfig(source_table="play.t", filter="vv < '5'"),)},
    ):
        with pytest.raises(ConfigError, match="'vv', which is not a column"):
            run(spec.model_copy(update=update))
