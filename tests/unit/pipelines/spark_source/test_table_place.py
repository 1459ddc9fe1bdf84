"""Options of reads and writes by Spark: each is known, or refused by its name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.spark_options import READ_OPTIONS
from penstock.pipelines.spark_source.table_place import TablePlace

PATH = {"path": "/warehouse/d.db/t"}
ENTRY = {**PATH, "provider": "penstock", "location": PATH["path"], "owner": "me"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"foo": "1"}, "'foo' is not an option of a read or a write"),
        ({"header": "true"}, "'header' is not an option"),
        ({"maxFilesPerTrigger": "1"}, "'maxfilespertrigger' is not an option"),
        ({"scan.snapshot-idd": "1"}, "did you mean scan.snapshot-id?"),
        ({"versionAsOf": "1"}, "did you mean scan.version?"),
        ({"mergeSchema": "true"}, "INSERT WITH SCHEMA EVOLUTION"),
        ({"partitionOverwriteMode": "both"}, "choices are static, dynamic"),
        ({"rowkind": "perhaps"}, "neither true nor false"),
        ({"commit-identifier": "x"}, "not a whole number"),
        ({"read.stream.maxRowsPerTrigger": "x"}, "not a whole number"),
        ({"paths": '["/a", "/b"]'}, "a read is of one table"),
    ],
)
def test_an_option_without_effect_is_refused_by_its_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TablePlace.of({**PATH, **given})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"checkpointLocation": "/c", "queryName": "q"},
        {"s3.access-key": "k", "fs.s3a.connection.maximum": "5", "local.sync": "false", "object-store.timeout": "5s"},
        {"lock.enabled": "true", "warehouse": "/warehouse"},
        {"partitionOverwriteMode": "DYNAMIC"},
    ],
)
def test_options_of_spark_stores_and_catalogs_pass(given: dict[str, str]) -> None:
    assert TablePlace.of({**PATH, **given}).path == PATH["path"]


def test_properties_of_an_entry_of_spark_pass() -> None:
    noted = {"external": "true", "transient_lastDdlTime": "1", "option.scan.snapshot-id": "1", "mine": "1"}
    assert TablePlace.of({**ENTRY, **noted}).path == PATH["path"]
    with pytest.raises(ConfigError, match=r"did you mean scan\.snapshot-id\?"):
        TablePlace.of({**ENTRY, "scan.snapshot-idd": "1"})


def test_a_catalog_learns_options_of_streams_before_they_start() -> None:
    assert {"scan.mode", "consumer-id", "read.stream.maxRowsPerTrigger", "rowkind"} <= set(READ_OPTIONS)


WORKER = """
import sys, types
sys.modules["__main__"].__spec__ = types.SimpleNamespace(name={name!r})
import io
from pyspark.util import handle_worker_exception
from penstock.errors import ConfigError
from penstock.pipelines.spark_source.plain_errors import plain_errors
sent = io.BytesIO()
try:
    with plain_errors():
        raise {raised}
except Exception as error:
    handle_worker_exception(error, sent)
print(sent.getvalue().decode("latin-1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "raised", "hidden"),
    [
        ("pyspark.sql.worker.create_data_source", "ConfigError('the sentence')", True),
        ("penstock.pipelines.spark.worker_daemon", "ConfigError('the sentence')", True),
        ("pyspark.daemon", "ValueError('a bug')", False),
        ("program", "ConfigError('the sentence')", False),
    ],
)
def test_a_worker_shows_the_sentence_without_a_traceback(name: str, raised: str, hidden: bool) -> None:
    text = WORKER.format(name=name, raised=raised)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=280, check=True)
    assert raised.split("'")[1] in done.stdout
    assert ("Traceback" not in done.stdout) is hidden
