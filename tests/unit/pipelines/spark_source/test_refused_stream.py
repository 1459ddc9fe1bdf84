"""A stream with wrong options tells Spark its own error, not the one of Spark's runner."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.errors import ConfigError
from penstock.pipelines.spark_cdc.source import cdc_source
from penstock.pipelines.spark_source.refused_stream import refusing
from penstock.pipelines.spark_source.source import PenstockDataSource

SCHEMA = StructType([StructField("id", IntegerType())])


def asked(reader: DataSourceStreamReader) -> None:
    """Call what Spark calls first, each of which must raise the error."""
    for call in ("prepareForTriggerAvailableNow", "getDefaultReadLimit", "initialOffset"):
        with pytest.raises(ConfigError) as refused:
            getattr(reader, call)()
        assert "'foo' is not an option" in str(refused.value)
    with pytest.raises(ConfigError):
        reader.latestOffset()
    reader.stop()  # Spark calls it whatever happened


def test_a_stream_of_a_table_with_an_unknown_option(tmp_path: Path) -> None:
    asked(PenstockDataSource({"path": str(tmp_path), "foo": "1"}).streamReader(SCHEMA))


def test_a_stream_of_a_source_with_an_unknown_option() -> None:
    options = {"hostname": "h", "username": "u", "password": "p", "table": "a.b", "state": "/s", "foo": "1"}
    asked(cdc_source("mysql")(options).streamReader(SCHEMA))


def test_bugs_are_not_kept() -> None:
    def broken() -> DataSourceStreamReader:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        refusing(broken)
