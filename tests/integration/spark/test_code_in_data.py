"""Whatever the source says in values, columns, tables and files: nothing of it is run or believed to be an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import DecodeError, PenstockError, SchemaConflict
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.job_run import JobRun
from tests.shop import Shop

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def payload(ran: Path) -> str:
    """A text that makes the file `ran` where it is taken for an error, its class imported and called."""
    code = f'open("{ran}","w")'
    planted = "exec(bytes((" + ",".join(str(byte) for byte in code.encode()) + ")))"
    return f'penstock-error:["pydantic","create_model","M","{planted}",{{}},0]'


def run(session: SparkSession, spec: PipelineSpec) -> None:
    JobRun(build.job(spec), session).run()


def message(table: str, types: dict[str, str], row: dict[str, str]) -> str:
    fields = {"type": "INSERT", "database": "shop", "table": table, "isDdl": False, "pkNames": ["id"], "ts": 1, "es": 1}
    return json.dumps(fields | {"mysqlType": {"id": "int", **types}, "data": [{"id": "1", **row}]})


def test_a_column_named_like_an_error_is_data(shop: Shop, spark: SparkSession, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    name = payload(ran)
    shop.put("1.json", message("t", {name: "int"}, {name: "1"}), message("t", {name: "date"}, {name: "2020-01-01"}))
    with pytest.raises(SchemaConflict) as caught:
        run(spark, shop.spec())
    assert name in str(caught.value)
    assert not ran.exists()


def test_records_values_tables_and_files_with_error_texts_are_data(
    shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    text = payload(ran)
    shop.put("1.json", message("orders", {"name": "text"}, {"name": text}))
    run(spark, shop.spec())
    assert [row["name"] for row in shop.rows("orders")] == [text]
    odd = text.replace("/", ":")
    shop.put(f"2{odd[:200]}.json", *[text] * 12, message(odd, {}, {}))
    with pytest.raises(DecodeError) as caught:
        run(spark, shop.spec())
    assert odd[:200] in caught.value.facts["place"]
    with pytest.raises(PenstockError) as skipped:
        run(spark, shop.spec(errors={"bad-record": "skip"}))
    assert odd[:40] in str(skipped.value)
    assert not ran.exists()


def test_errors_in_files_of_the_spark_checkpoint(shop: Shop, spark: SparkSession, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    shop.put("1.json", message("orders", {}, {}))
    run(spark, shop.spec())
    offsets = tmp_path / "checkpoint" / "offsets"
    for crc in offsets.glob(".*.crc"):
        crc.unlink()
    (offsets / "0").write_text("\n".join(["v1", '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', payload(ran)]))
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    with pytest.raises((PySparkException, PenstockError)):
        run(spark, shop.spec())
    assert not ran.exists()
