"""Secrets that are plain values of a pipeline with Spark into a Hive catalog: the metastore's entries have none."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.table.metastore.hive_client import HiveMetastore
from tests.integration.kafka.test_formats_alike import aliyun
from tests.integration.secrets_in_spark import HUSH, places_with_secrets

pytestmark = [pytest.mark.hive, pytest.mark.spark, pytest.mark.slow]
FILES = "\nsource: {type: files, path: INBOX, value.format: aliyun-json}\n"
HIVE = "metastore: hive, options: {uri: 'URI', s3.access-key: AK, s3.secret-key: HUSH, fs.azure.account.key: HUSH}"


def test_no_place_shows_plain_secrets_of_a_hive_catalog(metastore: str, tmp_path: Path) -> None:
    inbox, run = tmp_path / "inbox", tmp_path / "run"
    inbox.mkdir()
    run.mkdir()
    (inbox / "1.json").write_text(aliyun("INSERT", 1, v="a"))
    catalog = penstock.Catalog(f"{run}/warehouse", {"metastore": "hive", "uri": metastore})
    try:
        source = FILES.replace("INBOX", str(inbox))
        assert places_with_secrets(source, run, HIVE.replace("URI", metastore)) == []
        names = HiveMetastore.of(metastore)
        entries = f"{names.database('ods')} {names.table('ods', 't')}"
        assert "ods.db/t" in entries
        assert HUSH not in entries
    finally:
        catalog.drop_database("ods", cascade=True)
