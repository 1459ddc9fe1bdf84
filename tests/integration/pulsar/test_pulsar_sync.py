"""Paimon's Pulsar actions against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.pipelines.commands.main import main
from penstock.table.catalog.catalog import Catalog
from tests.here import run
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync
from tests.samples import Sample, check, samples

pytestmark = pytest.mark.pulsar

ROOT = Path(__file__).resolve().parents[3]


def one_of_each_format() -> list[Sample]:
    """Return the first sample of each format; formats are tested by themselves, here only the way to them."""
    found: dict[str, Sample] = {}
    for sample in samples():
        found.setdefault(sample.format, sample)
    return list(found.values())


@pytest.mark.parametrize("sample", one_of_each_format(), ids=lambda item: item.id)
def test_sample_messages_become_the_expected_tables(sample: Sample, broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, sample.format)
    flags = [*sample.arguments, *sync.flags(topic)]
    for step in sample.steps:
        for _, messages in step.feed:
            send(broker, topic, sample, messages)
        run(spec_of(sample, flags))
        assert sync.tables() == set(step.tables)
        for name, expected in step.tables.items():
            check(sync.table(name), expected, topic)


def spec_of(sample: Sample, flags: list[str]):  # type: ignore[no-untyped-def]
    from tests.sync_flags import spec_of_action

    return spec_of_action(sample.action.replace("kafka", "pulsar"), flags)


def send(broker: Broker, topic: str, sample: Sample, messages: list[bytes]) -> None:
    if sample.format != "debezium-bson":
        broker.send(topic, *messages)
        return
    for key, value in zip(messages[::2], messages[1::2], strict=True):
        broker.send(topic, value, partition_key=key.decode())


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_writes_a_topic_to_a_table_and_resumes(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, "json")
    for number in range(2):
        broker.send(topic, json.dumps({"id": number, "name": "x"}))
        arguments = ["pulsar_sync_table", *sync.flags(topic, "--table", "t")]
        command = [sys.executable, "-m", "penstock.pipelines.commands.main", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        assert sync.ids("t") == list(range(number + 1))


def canal(table: str, kind: str, *rows: dict[str, str | None], keys: Sequence[str], **types: str) -> str:
    head = {"database": "Shop", "table": table, "type": kind, "isDdl": False, "ts": 1_700_000_000_001}
    return json.dumps(head | {"pkNames": keys, "mysqlType": types, "data": rows, "old": [{} for _ in rows]})


def place(topic: str) -> str:
    return f"persistent://public/default/{topic}"


@pytest.mark.parametrize("pattern", [False, True], ids=["list", "pattern"])
def test_database_of_several_topics_as_paimon_writes_it(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: bool
) -> None:
    """Schema changes, affixes, an existing table, computed columns, partitions of one table, names in mixed case."""
    prefix = f"many{int(pattern)}"
    topics = [broker.topic(name=f"{prefix}_{number}") for number in range(3)]
    sync = Sync(broker, tmp_path)
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods")
    catalog.create_table("ods.p_t1_s", [("k", "INT NOT NULL"), ("v1", "STRING")], primary_keys=["k"])
    one, two = {"k": "int", "v1": "varchar(10)"}, {"K1": "int", "k2": "varchar(10)", "At": "bigint"}
    broker.send(
        topics[0],
        canal("T1", "INSERT", {"k": "1", "v1": "one"}, {"k": "2", "v1": "two"}, keys=["k"], **one),
        canal("t2", "INSERT", {"K1": "1", "k2": "a", "At": "1679566272"}, keys=["K1", "k2"], **two),
        canal("t2_hidden", "INSERT", {"k": "1", "v1": "x"}, keys=["k"], **one),
        canal("other", "INSERT", {"k": "1", "v1": "x"}, keys=["k"], **one),
    )
    flags = [
        *("--table-prefix", "p_", "--table-suffix", "_s", "--including-tables", "[tT][0-9].*"),
        *("--excluding-tables", ".*hidden", "--computed-column", "year=year(at, 0)", "--computed-column", "seen=now()"),
        *("--multiple-table-partition-keys", "t2=k2", "--metadata-column", "database_name,topic"),
        *("--catalog-conf", "case-sensitive=false"),
    ]
    chosen = f"{prefix}_.*" if pattern else ";".join(topics)
    run(sync.spec(chosen, *flags))
    assert sync.columns("p_t2_s")[:4] == ["k1 INT NOT NULL", "k2 VARCHAR(10) NOT NULL", "at BIGINT", "year INT"]
    broker.send(
        topics[1],
        canal("t1", "UPDATE", {"K": "1", "v1": "uno", "V2": "5"}, keys=["K"], K="int", v1="varchar(10)", V2="int"),
        canal(
            "T2",
            "INSERT",
            {"k1": "2", "K2": "b", "at": None},
            keys=["k1", "K2"],
            k1="int",
            K2="varchar(20)",
            at="bigint",
        ),
    )
    broker.send(
        topics[2],
        canal("t1", "DELETE", {"k": "2", "v1": "two"}, keys=["k"], **one),
        canal("t3", "INSERT", {"k": "1", "v1": "x"}, keys=["k"], **one),
    )
    run(sync.spec(chosen, *flags, "--table-conf", "bucket=1", "--table-conf", "snapshot.num-retained.max=20"))
    assert sync.tables() == {"p_t1_s", "p_t2_s", "p_t3_s"}
    (row,) = sync.rows("p_t1_s")
    assert list(row) == ["k", "v1", "year", "seen", "database_name", "topic", "v2"]
    assert row.pop("seen") is not None
    assert tuple(row.values()) == (1, "uno", None, "Shop", place(topics[1]), 5)
    assert [(row["k1"], row["k2"], row["at"], row["year"], row["topic"]) for row in sync.rows("p_t2_s")] == [
        (1, "a", 1_679_566_272, 2023, place(topics[0])),
        (2, "b", None, None, place(topics[1])),
    ]
    tables = {name: sync.table(name) for name in sync.tables()}
    assert {name: table.partition_keys for name, table in tables.items()} == {
        "p_t1_s": [],
        "p_t2_s": ["k2"],
        "p_t3_s": [],
    }
    assert tables["p_t3_s"].definition.options == {"bucket": "1", "snapshot.num-retained.max": "20"}
    assert main(["verify", "pulsar-sync-database", *sync.flags(chosen, *flags)]) == 2
    assert "a source of type pulsar has no rows to compare with" in capsys.readouterr().err


def test_snapshots_have_the_event_time_of_messages_as_watermark(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path)
    broker.send(topic, canal("t", "INSERT", {"id": "1"}, keys=["id"], id="int"))
    flags = ["--table", "t", "--table-conf", "tag.automatic-creation=watermark"]
    run(sync.spec(topic, *flags, "--table-conf", "tag.creation-period=hourly"))
    snapshot = sync.table("t").latest_snapshot
    assert snapshot is not None
    assert snapshot.watermark == 1_700_000_000_000  # rows of the newest time may still come
