"""Changed answers of other servers: a REST catalog, Pulsar's admin interface, a schema registry, a Hive metastore."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest

from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.ingest.pulsar.admin import PulsarAdmin
from penstock.storage.environment import Environment
from penstock.table.catalog.rest_catalog import RestCatalog
from penstock.table.catalog.rest_client import RestServer
from penstock.table.handle import Table
from tests.fuzz.mutations import changed, changed_document, held, seeds
from tests.wire_server import http_reply, json_reply, listening, path_of

TOPIC = "persistent://shop/eu/orders"
SNAPSHOT = {
    "version": 3, "id": 1, "schemaId": 0, "baseManifestList": "a", "deltaManifestList": "b", "commitUser": "u",
    "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1, "totalRecordCount": 1, "deltaRecordCount": 1,
}  # fmt: skip
SCHEMA = {
    "fields": [{"id": 0, "name": "id", "type": "INT NOT NULL"}], "partitionKeys": [], "primaryKeys": ["id"],
    "options": {"bucket": "1"},
}  # fmt: skip
# By the end of the path of a request.
REST: dict[str, Any] = {
    "/config": {"defaults": {"prefix": "p"}, "overrides": {"header.X-A": "b"}},
    "/databases": {"databases": ["shop", "other"], "nextPageToken": "more"},
    "/shop": {"id": "1", "name": "shop", "location": "/nowhere/shop.db", "options": {"comment": "c"}},
    "/tables": {"tables": ["orders"], "nextPageToken": None},
    "/orders": {
        "id": "22-33", "name": "orders", "path": "/nowhere/t", "isExternal": False, "schemaId": 0, "schema": SCHEMA,
    },
    "/snapshot": {"snapshot": {"snapshot": SNAPSHOT, "recordCount": 1, "fileSizeInBytes": 2}},
    "/commit": {"success": True},
}  # fmt: skip
PULSAR: dict[str, Any] = {
    "/eu": [TOPIC, f"{TOPIC}-partition-0"],
    "/partitioned": [TOPIC],
    "/stats": {"subscriptions": {"penstock": {"consumers": [{"consumerName": "a"}]}}},
    "/internalStats": {"ledgers": [{"ledgerId": 4, "entries": 100}], "currentLedgerEntries": 17},
    "/messageTTL": 3600,
    "/schema": {"type": "AVRO", "version": 1},
}
REGISTRY: dict[str, Any] = {"/1": {"schema": json.dumps({"type": "record", "name": "r", "fields": []})}}
NUMBERS = count()


def answered(documents: Mapping[str, Any], request: bytes, chance: random.Random) -> bytes:
    """Return the answer to a request, in one of three cases unchanged."""
    path = path_of(request)
    document = next((found for end, found in documents.items() if path.endswith(end)), {})
    match chance.randrange(6):
        case 0 | 1:
            return json_reply(document)
        case 2 | 3:
            return json_reply(changed_document(document, chance))
        case 4:
            return changed(json_reply(document), chance)
    odd = (b"", b"null", b"[]", b'"x"', b"1e999", b"[" * 50_000, b"<html>", b"\xff\xfe", b'{"a":' * 5000)
    status = chance.choice(("200 OK", "302 Found", "404 Not Found", "418 Tea", "429 Slow", "500 Broken", "503 Busy"))
    return http_reply(chance.choice(odd), status, f"Location: http://[{chance.randrange(9)}")


def rest_server(url: str, environment: Environment) -> RestServer:
    # The settings of a server are asked for once per process, so each has an option of its own.
    options = (("header.X-Number", str(next(NUMBERS))), ("token", "t"), ("token.provider", "bear"), ("uri", url))
    return RestServer(url, "lake", options, environment)


def use_rest(url: str) -> None:
    environment = Environment(sleep=lambda _seconds: None, jitter=lambda: 0.0)
    catalog = RestCatalog(rest_server(url, environment), environment)
    catalog.database_properties("shop")
    catalog.has_table("shop.orders")
    catalog.tables("shop")
    store = catalog.open("shop.orders", None)
    store.snapshots.latest()
    Table(store)


def use_rest_pages(url: str) -> None:
    environment = Environment(sleep=lambda _seconds: None, jitter=lambda: 0.0)
    RestCatalog(rest_server(url, environment), environment).databases()


def use_pulsar(url: str) -> None:
    admin = PulsarAdmin({"pulsar.admin.adminUrl": url})
    admin.topics_matching("shop/eu/orders.*")
    admin.exists((TOPIC, -1))
    admin.consumers((TOPIC, -1), "penstock")
    admin.ledgers((TOPIC, -1))
    admin.message_ttl(TOPIC)
    admin.schema_type(TOPIC)


def use_registry(url: str) -> None:
    SchemaRegistry(url, sleep=lambda _seconds: None).schema(1)


@pytest.mark.parametrize(
    ("documents", "use"),
    [(REST, use_rest), (REST, use_rest_pages), (PULSAR, use_pulsar), (REGISTRY, use_registry)],
    ids=["rest", "rest-pages", "pulsar", "registry"],
)
def test_a_changed_answer_is_used_or_refused(
    documents: Mapping[str, Any], use: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    ended: Counter[str] = Counter()
    chance, size = random.Random(0), len(json.dumps(list(documents.items()), default=str))
    with listening(lambda asked: answered(documents, asked, chance)) as server:
        for number in seeds(request, 120, 4000):
            chance = number
            ended[held(lambda: use(f"http://127.0.0.1:{server.port}"), documents, size=size)] += 1
    assert len(ended) > 1, ended


hive = pytest.importorskip("penstock.table.metastore.hive_client", reason="CANNOT RUN HERE: pymetastore is missing")


def thrift_replies() -> list[bytes]:
    """Return the replies to the requests of `use_hive`, as a metastore writes them."""
    from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType
    from thrift.transport.TTransport import TMemoryBuffer

    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name="id", type="int", comment="")],
        location="/nowhere/t",
        inputFormat="org.apache.paimon.hive.mapred.PaimonInputFormat",
        serdeInfo=ttypes.SerDeInfo(serializationLib="s"),
    )
    table = ttypes.Table(
        tableName="orders", dbName="shop", sd=storage, parameters={"table_type": "paimon"}, partitionKeys=[]
    )
    results = {
        "get_database": ThriftHiveMetastore.get_database_result(
            success=ttypes.Database(name="shop", locationUri="/nowhere", parameters={"a": "b"})
        ),
        "get_table_req": ThriftHiveMetastore.get_table_req_result(success=ttypes.GetTableResult(table=table)),
        "get_all_tables": ThriftHiveMetastore.get_all_tables_result(success=["orders", "others"]),
        "get_table_objects_by_name_req": ThriftHiveMetastore.get_table_objects_by_name_req_result(
            success=ttypes.GetTablesResult(tables=[table])
        ),
        "get_partition_names": ThriftHiveMetastore.get_partition_names_result(success=["dt=1"]),
        "lock": ThriftHiveMetastore.lock_result(success=ttypes.LockResponse(lockid=7, state=ttypes.LockState.ACQUIRED)),
    }
    replies = []
    for name, result in results.items():
        memory = TMemoryBuffer()
        protocol = TBinaryProtocol(memory)
        protocol.writeMessageBegin(name, TMessageType.REPLY, 0)
        result.write(protocol)
        protocol.writeMessageEnd()
        replies.append(memory.getvalue())
    return replies


def use_hive(port: int, way: int) -> None:
    metastore = hive.HiveMetastore.of(f"thrift://127.0.0.1:{port}")
    match way:
        case 0:
            metastore.database("shop")
        case 1:
            metastore.location(metastore.table("shop", "orders"))
        case 2 | 3:
            metastore.tables("shop")
        case 4:
            metastore.partition_names("shop", "orders")
        case 5:
            metastore.request_lock("shop", "orders")


def test_a_damaged_reply_of_a_metastore_is_used_or_refused(request: pytest.FixtureRequest) -> None:
    ended: Counter[str] = Counter()
    replies, chance, way = thrift_replies(), random.Random(0), 0

    def reply(_asked: bytes) -> bytes:
        return replies[way] if chance.random() < 0.2 else changed(replies[way], chance)

    with listening(reply) as server:

        def use() -> None:
            use_hive(server.port, way)

        for number in seeds(request, 300, 20_000):
            chance, way = number, number.randrange(len(replies))
            ended[held(use, replies[way], size=len(replies[way]))] += 1
    assert {"well", "MalformedReply"} <= ended.keys(), ended
