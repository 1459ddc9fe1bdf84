"""Addresses of Hive metastores."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.table.metastore.hive_client import HiveMetastore

ROOT = Path(__file__).resolve().parents[4]


def test_several_servers_are_separated_by_commas() -> None:
    metastore = HiveMetastore.of("thrift://a:9083, thrift://b")
    assert metastore.servers == (("a", 9083), ("b", 9083))
    assert str(metastore) == "thrift://a:9083,thrift://b:9083"
    assert pickle.loads(pickle.dumps(metastore)) == metastore


def test_a_metastore_that_cannot_be_reached_may_be_tried_again() -> None:
    with pytest.raises(StoreError, match="the Hive metastore does not answer") as caught:
        HiveMetastore.of("thrift://127.0.0.1:1").table("shop", "orders")
    assert caught.value.retryable


def test_the_client_that_is_not_installed_is_named() -> None:
    code = "import sys; sys.modules['pymetastore'] = None\n"
    code += "import penstock; penstock.Catalog('/lake', {'metastore': 'hive', 'uri': 'thrift://host'})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": ".build"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "the client of Hive metastores is not installed" in done.stderr
