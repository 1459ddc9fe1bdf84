"""Addresses of Hive metastores, and replies that are not as their protocol requires."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from penstock.errors import StoreError
from penstock.table.metastore.hive_client import HiveMetastore, MalformedReply
from tests.wire_server import listening

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


def test_the_client_of_the_metastore_logs_no_traceback_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Users saw it in front of the error that names the metastore."""
    with pytest.raises(StoreError, match="the Hive metastore does not answer"):
        HiveMetastore.of("thrift://nowhere.invalid:9083").table("shop", "orders")
    assert caplog.text == ""


@pytest.mark.slow
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


def reply(name: str, **success: Any) -> bytes:
    """Return the reply to a request as a metastore writes it."""
    memory = TMemoryBuffer()
    protocol = TBinaryProtocol(memory)
    protocol.writeMessageBegin(name, TMessageType.REPLY, 0)
    getattr(ThriftHiveMetastore, f"{name}_result")(**success).write(protocol)
    protocol.writeMessageEnd()
    written: bytes = memory.getvalue()
    return written


TABLE = ttypes.Table(tableName="orders", dbName="shop")


@pytest.mark.parametrize(
    ("answer", "use"),
    [
        (reply("get_database", success=ttypes.Database(name="shop")), lambda client: client.database("shop")),
        (
            reply("get_table_req", success=ttypes.GetTableResult(table=TABLE)),
            lambda client: client.location(client.table("shop", "orders")),
        ),
        (reply("get_table_req", success=ttypes.GetTableResult()), lambda client: client.table("shop", "orders")),
        (reply("get_all_tables", success=["orders"])[:-12], lambda client: client.tables("shop")),
        (
            reply("get_all_tables", success=["orders"]).replace(b"orders", b"\xff\xfe\xff\xfe\xff\xfe"),
            lambda client: client.tables("shop"),
        ),
        (reply("lock", success=ttypes.LockResponse()), lambda client: client.request_lock("shop", "orders")),
        (reply("lock"), lambda client: client.request_lock("shop", "orders")),
    ],
    ids=["database", "location", "table", "cut", "text", "lock", "nothing"],
)
def test_a_reply_with_missing_or_damaged_parts_is_an_error_of_the_metastore(
    answer: bytes, use: Callable[[HiveMetastore], object]
) -> None:
    with listening(lambda _: answer) as server:
        metastore = HiveMetastore.of(f"thrift://127.0.0.1:{server.port}")
        with pytest.raises(StoreError) as caught:
            use(metastore)
    assert caught.value.facts["metastore"] == str(metastore)
    assert caught.value.hint


def test_a_reply_without_a_result_is_not_a_refusal() -> None:
    with listening(lambda _: reply("lock")) as server, pytest.raises(MalformedReply, match="unknown result"):
        HiveMetastore.of(f"thrift://127.0.0.1:{server.port}").request_lock("shop", "orders")
