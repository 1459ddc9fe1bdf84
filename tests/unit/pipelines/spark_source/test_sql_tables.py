"""The columns of a statement identify the table that SQL knows by a name."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.sql_tables import read_options, remembered, write_options

COLUMNS = StructType([StructField("at", TimestampType()), StructField("id", IntegerType(), False)])
PATH = "file:/w/d.db/t"
MADE_BY = {"provider": "penstock", "location": PATH, "path": PATH, "s3.secret-key": "hush", "owner": "me"}
NAMED = remembered(COLUMNS, MADE_BY)


def fitted(schema: StructType) -> StructType:
    """As Spark fits the columns of a query to the target: by its metadata, without the declared type."""
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {key: field.metadata[key] for key in field.metadata if "CHAR" not in key},
            )
            for field in schema.fields
        ]
    )


def test_reads_and_writes_by_name_have_their_table() -> None:
    assert read_options({}, NAMED)["path"] == PATH
    assert write_options({}, fitted(NAMED))["path"] == PATH
    assert "hush" not in NAMED.json()


def test_writes_by_name_are_refused_where_spark_does_not_fit_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipelines.spark.versions.pyspark_version", lambda: "4.0.5")
    with pytest.raises(ConfigError, match=r"needs Spark 4\.1 or newer"):
        write_options({}, fitted(NAMED))
    assert write_options({"path": "/other"}, NAMED) == {"path": "/other"}
    assert read_options({}, NAMED)["path"] == PATH


def test_columns_that_only_pass_through_name_no_target() -> None:
    for schema in (NAMED, COLUMNS):
        with pytest.raises(ConfigError, match=r"nothing was written.*created by CREATE TABLE with columns") as caught:
            write_options({}, schema)
        assert "CREATE TABLE lake.db.t (...)" in str(caught.value)
        assert write_options({"path": "/other"}, schema) == {"path": "/other"}


def test_a_name_of_an_older_version_is_read_and_not_written() -> None:
    metadata = {"penstock.table": json.dumps({"path": PATH})}
    schema = StructType([StructField("id", IntegerType(), True, metadata), StructField("n", StringType())])
    assert read_options({}, schema) == {"path": PATH}
    with pytest.raises(ConfigError, match="nothing was written"):
        write_options({}, schema)


def test_a_name_without_a_column_that_can_be_marked_is_read_and_not_written() -> None:
    schema = remembered(StructType([StructField("at", TimestampType())]), MADE_BY)
    assert read_options({}, schema)["path"] == PATH
    with pytest.raises(ConfigError, match="nothing was written"):
        write_options({}, fitted(schema))


@pytest.mark.parametrize(
    "altered",
    [
        StructType([*NAMED.fields, StructField("n", IntegerType())]),
        StructType(NAMED.fields[1:]),
        StructType([StructField("since", TimestampType()), *NAMED.fields[1:]]),
        StructType([StructField("at", StringType()), *NAMED.fields[1:]]),
    ],
)
def test_a_name_whose_columns_spark_has_altered_is_refused(altered: StructType) -> None:
    with pytest.raises(ConfigError, match="ALTER TABLE"):
        read_options({}, altered)
    with pytest.raises(ConfigError, match="ALTER TABLE"):
        write_options({}, fitted(altered))


def test_columns_that_no_statement_named_a_table_for_are_refused() -> None:
    with pytest.raises(ConfigError, match="created by CREATE TABLE with columns") as caught:
        read_options({}, COLUMNS)
    assert "penstock.register(" in str(caught.value)
