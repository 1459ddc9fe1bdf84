"""Which tables may follow DDL: targets of one source table. And the server ids of readers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.errors import ConfigError
from penstock.formats.change import ImagePolicy
from penstock.ingest.mysql import read_range
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.errors import ServerIdClash
from penstock.ingest.mysql.settings import FollowSettings, follow_settings
from penstock.pipelines.config.load import parsed
from penstock.pipelines.job.source_request import request_of


def settled(tables: list[str], ddl: dict[str, str], server_id: str | None = None, **sink: Any) -> FollowSettings:
    source = {"type": "mysql", "hostname": "h", "username": "u", "password": "p", "tables": tables, "ddl": ddl}
    source |= {"server-id": server_id} if server_id else {}
    spec = parsed({"source": source, "sink": {"catalog": {"warehouse": "/w"}, "database": "ods", **sink}})
    assert isinstance(spec.source, MySqlConfig)
    return follow_settings(spec.source, request_of(spec))


@pytest.mark.parametrize("ddl", [{"truncate": "delete-all"}, {"drop": "delete-all"}, {"rename-column": "rename"}])
def test_patterns_that_name_one_database_may_follow_ddl(ddl: dict[str, str]) -> None:
    settled(["erp.*"], ddl)
    settled(["erp.[a-zA-Z0-9_ -]+", "erp.orders"], ddl)
    settled(["erp.orders"], ddl, table="orders")
    settled(["erp_.*"], ddl, naming={"merge-shards": False})
    for tables, sink in ((["erp.*", "shop.*"], {}), (["erp_[0-9].orders"], {}), (["erp.orders_.*"], {"table": "o"})):
        with pytest.raises(ConfigError, match="may have several source tables") as caught:
            settled(tables, ddl, **sink)
        assert "naming: {merge-shards: false}" in str(caught.value)


def test_two_attempts_of_a_task_have_different_server_ids() -> None:
    """MariaDB disconnects the first of two readers with one id, and Spark may run a task twice at the same time."""
    settings = settled(["erp.*"], {})
    first, last = settings.server_ids
    ids = [{settings.server_id(reader) for _ in range(50)} for reader in (-1, 0, 1, 7)]
    assert all(len(of_reader) > 10 for of_reader in ids)
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert all(first <= number <= last for number in set.union(*ids))


def test_server_ids_of_a_configured_range_are_those_of_the_readers() -> None:
    settings = settled(["erp.*"], {}, "5400-5407")
    assert [settings.server_id(reader) for reader in (0, 1, 8, -1)] == [5400, 5401, 5400, 5407]


def test_the_error_for_a_server_id_in_use_names_the_range_and_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few ids, the readers of one pipeline may have the same id."""

    def clash(*_: object, **__: object) -> None:
        raise ServerIdClash("another binlog reader uses this pipeline's server id", retryable=True)

    monkeypatch.setattr(read_range, "read_chunk", clash)
    monkeypatch.setattr(read_range, "chunk_from", lambda _: None)
    settings, no_images = settled(["erp.*"], {}, "5400-5401"), cast(ImagePolicy, None)
    reader = read_range.MySqlRangeReader(settings, {read_range.CHUNK: {}}, no_images)
    with pytest.raises(ServerIdClash, match="leave out the option server-id") as caught:
        list(reader.chunks())
    assert caught.value.facts["range_of_the_pipeline"] == "5400-5401"
    assert caught.value.retryable
