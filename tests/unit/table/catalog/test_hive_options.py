"""Options of a Hive catalog; everything that needs a metastore is tested with a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.hive_commits import HiveCommits
from penstock.table.catalog.hive_options import open_hive


def options(**more: str) -> dict[str, str]:
    return {"metastore": "hive", "uri": "thrift://127.0.0.1:1", **more}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"uri": ""}, "needs a uri"),
        ({"uri": "http://host:9083"}, "is not the address of a Hive metastore"),
        ({"uri": "thrift://host:port"}, "is not the address of a Hive metastore"),
        ({"uri": "thrift://host:9083,other"}, "uri = other is not the address"),
        ({"anything": "1"}, "'anything' is not an option of a hive catalog"),
        ({"jdbc.user": "me"}, "'jdbc.user' is not an option of a hive catalog"),
        ({"case-sensitive": "true"}, "case-sensitive = true is not supported"),
        ({"lock.type": "zookeeper"}, "lock.type = zookeeper is not supported"),
        ({"lock.enabled": "perhaps"}, "neither true nor false"),
        ({"sync-all-properties": "false"}, "sync-all-properties = false is not supported"),
        ({"location-in-properties": "true"}, "location-in-properties = true is not supported"),
        ({"hive.metastore.sasl.enabled": "true"}, "does not log in to a metastore by Kerberos"),
        ({"hive.metastore.kerberos.principal": "hive/_HOST@X"}, "does not log in to a metastore by Kerberos"),
        ({"table.type": "external"}, "table.type = external is not supported"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        penstock.Catalog(str(tmp_path), options() | more)


def test_a_configuration_file_of_hive_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    penstock.Catalog(str(tmp_path), options(**{"hive-conf-dir": "/etc/hive"}))
    assert 'option=hive-conf-dir instead="it is not used by metastore = hive"' in caplog.text


def test_locks_are_the_default_on_object_stores(tmp_path: Path) -> None:
    def locked(warehouse: str, **more: str) -> bool:
        commits = open_hive(warehouse, options(**more), Environment())._entries.commits
        assert isinstance(commits, HiveCommits)
        return commits.locks is not None

    assert not locked(str(tmp_path))
    assert locked("s3://bucket/warehouse")
    assert not locked("s3://bucket/warehouse", **{"lock.enabled": "false"})
    assert locked(str(tmp_path), **{"lock.enabled": "true"})
