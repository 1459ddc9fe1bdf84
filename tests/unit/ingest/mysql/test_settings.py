"""DDL may be followed for target tables of one source table, not of several."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.config import MySqlConfig
from penstock.ingest.mysql.settings import follow_settings
from penstock.pipelines.config.load import parsed
from penstock.pipelines.job.source_request import request_of


def settled(tables: list[str], ddl: dict[str, str], **sink: Any) -> None:
    source = {"type": "mysql", "hostname": "h", "username": "u", "password": "p", "tables": tables, "ddl": ddl}
    spec = parsed({"source": source, "sink": {"catalog": {"warehouse": "/w"}, "database": "ods", **sink}})
    assert isinstance(spec.source, MySqlConfig)
    follow_settings(spec.source, request_of(spec))


@pytest.mark.parametrize("ddl", [{"truncate": "delete-all"}, {"drop": "delete-all"}, {"rename-column": "rename"}])
def test_patterns_that_name_one_database_may_follow_ddl(ddl: dict[str, str]) -> None:
    settled(["erp.*"], ddl)
    settled(["erp.[a-zA-Z0-9_ -]+", "erp.orders"], ddl)
    settled(["erp.orders"], ddl, table="orders")
    settled(["erp_.*"], ddl, naming={"merge-shards": False})
    for tables, sink in ((["erp.*", "shop.*"], {}), (["erp_[0-9].orders"], {}), (["erp.orders_.*"], {"table": "o"})):
        with pytest.raises(ConfigError, match="several source tables may go to") as caught:
            settled(tables, ddl, **sink)
        assert "naming: {merge-shards: false}" in str(caught.value)
