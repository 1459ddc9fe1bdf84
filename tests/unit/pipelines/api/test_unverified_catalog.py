from __future__ import annotations

import pytest

from penstock.pipelines.api.unverified_catalog import unverified_catalog
from penstock.pipelines.config.sink import CatalogConfig


@pytest.mark.parametrize(
    ("metastore", "options", "warned"),
    [
        ("filesystem", {}, False),
        ("rest", {"uri": "http://names:8080"}, True),
        ("rest", {"uri": "http://localhost:8080"}, False),
        ("rest", {"uri": "https://names"}, False),
        ("hive", {"uri": "thrift://localhost:9083,thrift://names:9083"}, True),
        ("hive", {"uri": "thrift://127.0.0.1:9083"}, False),
        ("hive", {"uri": "thrift://127.0.0.1:9083, thrift://localhost:9083"}, False),
        ("hive", {"uri": "thrift://localhost:9083,thrift://thrift:9083"}, True),
        ("jdbc", {"uri": "jdbc:sqlite:/names.sqlite"}, False),
        ("jdbc", {"uri": "jdbc:mysql://names:3306/paimon"}, True),
        ("jdbc", {"uri": "jdbc:mysql://names/paimon?sslMode=REQUIRED"}, True),
        ("jdbc", {"uri": "jdbc:mysql://names/paimon?sslMode=VERIFY_CA"}, False),
        ("jdbc", {"uri": "jdbc:mysql://127.0.0.1/paimon"}, False),
        ("jdbc", {"uri": "jdbc:postgresql://names/paimon", "jdbc.sslmode": "verify-full"}, False),
        ("jdbc", {"uri": "jdbc:postgresql://names/paimon", "jdbc.sslmode": "prefer"}, True),
    ],
)
def test_a_catalog_that_nothing_verifies_is_a_warning(metastore: str, options: dict[str, str], *, warned: bool) -> None:
    found = unverified_catalog(CatalogConfig(warehouse="w", metastore=metastore, options=options))
    assert [finding.level for finding in found] == (["warning"] if warned else [])
