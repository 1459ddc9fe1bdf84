"""A server of Paimon's REST protocol for tests: it keeps names, writes schemas and snapshots, and is strict.

A request with an unknown or missing key is refused, as is a snapshot whose files do not exist. The folders of tables
are not named after them, so that clients must ask. Knows nothing of the client in `table/catalog`.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import penstock
from penstock.errors import PenstockError
from penstock.storage.base import put_if_absent
from penstock.storage.environment import Environment
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.schema.changes import SchemaChange
from penstock.table.schema.json_file import pretty_json
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.usable import check_usable
from penstock.table.values.types import field_json, parse_field, parse_type

TOKEN = "the-token-of-tests"
PREFIX = "lake of tests"
Node = dict[str, Any]


class Refusal(Exception):
    """A reply that is an error."""

    def __init__(self, code: int, message: str, kind: str | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.code, self.node = code, {"message": message, "code": code, "resourceType": kind, "resourceName": name}


@dataclass
class Registered:
    """A table: its id, folder, and by branch its newest snapshot and what commits said about its partitions.

    As with Java's servers, a snapshot that somebody wrote as a file alone is not in the table.
    """

    id: str
    folder: str
    kind: str = "table"
    external: bool = False
    newest: dict[str, Node] = field(default_factory=dict)
    partitions: dict[str, dict[str, Node]] = field(default_factory=dict)


@dataclass
class Fault:
    """A fault of requests whose path ends in `end`: `status`, or the connection is cut after the work."""

    method: str
    end: str
    status: int | None = None
    before: Callable[[], None] | None = None
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1


class RestCatalogServer:
    """The state of the server. One lock orders all requests."""

    def __init__(self, folder: Path, page: int = 2) -> None:
        self.folder, self.page = folder, page
        self.databases: dict[str, dict[str, str]] = {}
        self.tables: dict[tuple[str, str], Registered] = {}
        self.views: dict[tuple[str, str], Node] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Fault] = []
        self.forbidden: set[str] = set()
        self.defaults: dict[str, str] = {}
        self.overrides: dict[str, str] = {}
        self.token = TOKEN
        self.data_tokens: list[Node] = []
        self.authorize: Callable[[str, str, Mapping[str, str], bytes, Mapping[str, str]], bool] = self._bearer
        self._lock = threading.RLock()
        self._storage = LocalStorage(sync=False)

    # requests

    def _bearer(
        self, method: str, path: str, query: Mapping[str, str], data: bytes, headers: Mapping[str, str]
    ) -> bool:
        return headers.get("authorization") == f"Bearer {self.token}"

    def answer(self, method: str, target: str, data: bytes, headers: Mapping[str, str]) -> tuple[int, Node | None]:
        """Do what a request asks for, and return the status and body of the reply."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        with self._lock:
            body = json.loads(data) if data else None
            self.requests.append((method, target, body))
            self.headers.append(dict(headers))
            try:
                if not self.authorize(method, parts.path, query, data, headers):
                    raise Refusal(401, "the login is not valid")
                return 200, self._route(method, parts.path, query, body)
            except Refusal as refusal:
                return refusal.code, refusal.node
            except PenstockError as error:
                return 400, {"message": error.message, "code": 400}

    def _route(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Node | None:
        steps = [unquote_plus(step) for step in path.split("/")[1:]]
        match method, steps:
            case "GET", ["v1", "config"]:
                if unquote_plus(query.get("warehouse", "")) != "lake":
                    raise Refusal(404, "there is no such warehouse", "CONFIG", query.get("warehouse"))
                return {"defaults": {"prefix": PREFIX, **self.defaults}, "overrides": self.overrides}
            case _, ["v1", prefix, *rest] if prefix == PREFIX:
                return self._in_catalog(method, rest, query, body)
        raise Refusal(404, f"there is no {method} {path}")

    def _in_catalog(self, method: str, steps: list[str], query: Mapping[str, str], body: Any) -> Node | None:
        match method, steps:
            case "GET", ["databases"]:
                return self._paged(query, "databases", sorted(self.databases), {"databaseNamePattern"})
            case "POST", ["databases"]:
                keys(body, {"name", "options"})
                if body["name"] in self.databases:
                    raise Refusal(409, f"database {body['name']} exists", "DATABASE", body["name"])
                self.databases[body["name"]] = dict(body["options"] or {})
                return None
            case "POST", ["tables", "rename"]:
                return self._rename(body)
            case "POST", ["views", "rename"]:
                names = self._renamed(body)
                if names[0] not in self.views:
                    raise Refusal(404, f"view {names[0][1]} does not exist", "VIEW", names[0][1])
                self.views[names[1]] = self.views.pop(names[0])
                return None
            case _, ["databases", name, *rest]:
                if name in self.forbidden:
                    raise Refusal(403, f"no permission for database {name}", "DATABASE", name)
                if name not in self.databases:
                    raise Refusal(404, f"database {name} does not exist", "DATABASE", name)
                return self._in_database(method, name, rest, query, body)
        raise Refusal(404, f"there is no {method} {steps}")

    def _in_database(
        self, method: str, name: str, steps: list[str], query: Mapping[str, str], body: Any
    ) -> Node | None:
        match method, steps:
            case "GET", []:
                return {
                    "id": name,
                    "name": name,
                    "location": str(self.folder),
                    "options": self.databases[name],
                    **AUDIT,
                }
            case "POST", []:
                keys(body, {"removals", "updates"})
                options = self.databases[name]
                gone = [key for key in body["removals"] if options.pop(key, None) is not None]
                options.update(body["updates"])
                missing = sorted({*body["removals"]} - {*gone})
                return {"removed": gone, "updated": sorted(body["updates"]), "missing": missing}
            case "DELETE", []:
                for key in [key for key in self.tables if key[0] == name]:
                    self._storage.delete_tree(self.tables.pop(key).folder)
                del self.databases[name]
                return None
            case "GET", ["tables"]:
                kind = query.get("tableType")
                names = [key[1] for key, item in self.tables.items() if key[0] == name and kind in {None, item.kind}]
                return self._paged(query, "tables", sorted(names), {"tableNamePattern", "tableType"})
            case "POST", ["tables"]:
                return self._create(name, body)
            case _, ["views", *rest]:
                return self._in_views(method, name, rest, query, body)
            case _, ["tables", table, *rest]:
                base, _, branch = table.partition("$branch_")
                if f"{name}.{base}" in self.forbidden:
                    raise Refusal(403, f"no permission for table {base}", "TABLE", base)
                found = self.tables.get((name, base))
                if found is None:
                    raise Refusal(404, f"table {base} does not exist", "TABLE", base)
                return self._in_table(method, found, table, branch or None, rest, query, body)
        raise Refusal(404, f"there is no {method} {steps}")

    def _in_views(
        self, method: str, database: str, steps: list[str], query: Mapping[str, str], body: Any
    ) -> Node | None:
        match method, steps:
            case "GET", []:
                names = sorted(key[1] for key in self.views if key[0] == database)
                return self._paged(query, "views", names, {"viewNamePattern"})
            case "POST", []:
                keys(body, {"identifier", "schema"})
                keys(body["schema"], {"fields", "query", "dialects", "options"}, {"comment"})
                if (database, body["identifier"]["object"]) in self.views:
                    raise Refusal(409, "the view exists", "VIEW", body["identifier"]["object"])
                self.views[database, body["identifier"]["object"]] = body["schema"]
                return None
            case "GET" | "DELETE", [view]:
                if (database, view) not in self.views:
                    raise Refusal(404, f"view {view} does not exist", "VIEW", view)
                if method == "GET":
                    return {"id": view, "name": view, "schema": self.views[database, view], **AUDIT}
                del self.views[database, view]
                return None
        raise Refusal(404, f"there is no {method} {steps}")

    def _in_table(
        self, method: str, found: Registered, name: str, branch: str | None, steps: list[str], query: Any, body: Any
    ) -> Node | None:
        match method, steps:
            case "GET", []:
                return self._table(found, name, branch)
            case "POST", []:
                keys(body, {"changes"})
                store = self._store(found, branch, name)
                columns = {item.name for item in store.schema().fields}
                store.evolve([change(node, columns) for node in body["changes"]], check_usable)
                return None
            case "DELETE", []:
                del self.tables[next(key for key, item in self.tables.items() if item is found)]
                if not found.external:
                    self._storage.delete_tree(found.folder)
                return None
            case "POST", ["commit"]:
                return {"success": self._commit(found, branch, name, body)}
            case "GET", ["snapshot"]:
                snapshot = found.newest.get(branch or "")
                if snapshot is None:
                    raise Refusal(404, "No Snapshot", "SNAPSHOT", name)
                counts = list(found.partitions.get(branch or "", {}).values())
                sums = {key: sum(item[key] for item in counts) for key in COUNTS[:-1]}
                newest = max((item["lastFileCreationTime"] for item in counts), default=0)
                return {"snapshot": {"snapshot": snapshot, **sums, "lastFileCreationTime": newest}}
            case "POST", ["rollback"]:
                return self._rollback(found, branch, name, body)
            case "GET", ["token"]:
                if not self.data_tokens:
                    raise Refusal(501, "no tokens are issued")
                return self.data_tokens.pop(0) if len(self.data_tokens) > 1 else self.data_tokens[0]
            case "GET", ["partitions"]:
                if self._store(found, branch, name).schema().options.get("metastore.partitioned-table") != "true":
                    raise Refusal(501, "the table is not partitioned in the metastore")
                partitions = [{**item, "done": False} for item in found.partitions.get(branch or "", {}).values()]
                return self._paged(query, "partitions", partitions, {"partitionNamePattern"})
            case "GET", ["branches"]:
                return {"branches": Table(self._store(found, None, name)).branches}
            case "POST", ["branches"]:
                keys(body, {"branch", "fromTag"})
                return self._in_branches(
                    found, name, body["branch"], lambda item: item.create_branch(body["branch"], body["fromTag"])
                )
            case "DELETE", ["branches", given]:
                return self._in_branches(found, name, given, lambda item: item.delete_branch(given))
            case "POST", ["branches", given, "forward"]:
                return self._in_branches(found, name, given, lambda item: item.fast_forward(given))
        raise Refusal(404, f"there is no {method} {steps}")

    def _paged(self, query: Mapping[str, str], key: str, found: Sequence[Any], patterns: set[str]) -> Node:
        unknown = query.keys() - {"maxResults", "pageToken"} - patterns
        if unknown:
            raise Refusal(400, f"unknown parameters {unknown}")
        start, most = int(query.get("pageToken") or 0), min(int(query.get("maxResults") or self.page), self.page)
        following = str(start + most) if start + most < len(found) else None
        return {key: list(found[start : start + most]), "nextPageToken": following}

    # tables

    def _store(self, found: Registered, branch: str | None, name: str) -> TableStore:
        try:
            return TableStore.open(self._storage, found.folder, branch, Environment(), catalog_name=name)
        except TableMissing as missing:
            raise Refusal(404, missing.message, "TABLE", name) from missing

    def _create(self, database: str, body: Node) -> None:
        keys(body, {"identifier", "schema"})
        identifier, node = body["identifier"], body["schema"]
        keys(identifier, {"database", "object"}, {"branch"})
        keys(node, {"fields", "partitionKeys", "primaryKeys", "options"}, {"comment"})
        name = identifier["object"]
        if identifier["database"] != database or "$" in name:
            raise Refusal(400, f"{identifier} is not a name in {database}")
        if (database, name) in self.tables:
            raise Refusal(409, f"table {name} exists", "TABLE", name)
        options = dict(node["options"])
        table = Registered(str(uuid.uuid4()), "", options.get("type", "table"), "path" in options)
        table.folder = options.pop("path", f"{self.folder}/data/{table.id}").removeprefix("file:")
        columns = tuple(parse_field(column) for column in node["fields"])
        now = time.time_ns() // 1_000_000
        schema = create_schema(
            columns, node["primaryKeys"], node["partitionKeys"], options, node.get("comment"), now=now
        )
        SchemaFiles(self._storage, table.folder).create(schema)
        self.tables[database, name] = table

    def _table(self, found: Registered, name: str, branch: str | None) -> Node:
        schema = self._store(found, branch, name).schema()
        node: Node = {
            "fields": [field_json(column) for column in schema.fields],
            "partitionKeys": schema.partition_keys,
            "primaryKeys": schema.primary_keys,
            "options": schema.options,
        }
        if schema.comment is not None:
            node["comment"] = schema.comment
        place = {"id": found.id, "name": name, "path": f"file:{found.folder}", "isExternal": found.external}
        return {**place, "schemaId": schema.id, "schema": node, **AUDIT}

    def _renamed(self, body: Node) -> list[tuple[str, str]]:
        keys(body, {"source", "destination"})
        names = []
        for identifier in (body["source"], body["destination"]):
            keys(identifier, {"database", "object"}, {"branch"})
            names.append((identifier["database"], identifier["object"]))
        return names

    def _rename(self, body: Node) -> None:
        names = self._renamed(body)
        if names[0] not in self.tables:
            raise Refusal(404, f"table {names[0][1]} does not exist", "TABLE", names[0][1])
        if names[1] in self.tables:
            raise Refusal(409, f"table {names[1][1]} exists", "TABLE", names[1][1])
        self.tables[names[1]] = self.tables.pop(names[0])

    def _commit(self, found: Registered, branch: str | None, name: str, body: Node) -> bool:
        keys(body, {"tableId", "snapshot", "statistics"}, {"baseSnapshotUuid"})
        if body["tableId"] != found.id:
            raise Refusal(404, f"table {name} has another id", "TABLE", name)
        store, snapshot = self._store(found, branch, name), body["snapshot"]
        newest = found.newest.get(branch or "")
        if newest is not None and snapshot["id"] != newest["id"] + 1:
            return False
        for key in ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest"):
            if snapshot.get(key) and not Path(store.paths.manifest(snapshot[key])).exists():
                raise Refusal(400, f"{key} {snapshot[key]} does not exist")
        if snapshot["schemaId"] not in store.schemas.ids():
            raise Refusal(400, f"schema {snapshot['schemaId']} does not exist")
        for item in body["statistics"]:
            keys(item, {"spec", *COUNTS}, {"totalBuckets"})
            if list(item["spec"]) != list(store.schema().partition_keys):
                raise Refusal(400, f"{item['spec']} is not a partition")
        if not put_if_absent(self._storage, store.paths.snapshot(snapshot["id"]), pretty_json(snapshot)):
            return False
        store.snapshots.folder.write_latest(snapshot["id"])
        found.newest[branch or ""] = snapshot
        self._count(found.partitions.setdefault(branch or "", {}), body["statistics"])
        return True

    def _count(self, partitions: dict[str, Node], added: Sequence[Node]) -> None:
        for item in added:
            key = json.dumps(item["spec"])
            before = partitions.get(key, {"spec": item["spec"], **dict.fromkeys(COUNTS, 0)})
            after = {name: before[name] + item[name] for name in COUNTS[:-1]}
            newest = max(before["lastFileCreationTime"], item["lastFileCreationTime"])
            partitions[key] = {"spec": item["spec"], **after, "lastFileCreationTime": newest}

    def _rollback(self, found: Registered, branch: str | None, name: str, body: Node) -> None:
        keys(body, {"instant"}, {"fromSnapshot"})
        instant = body["instant"]
        keys(instant, {"type", {"snapshot": "snapshotId", "tag": "tagName"}[instant["type"]]})
        table = Table(self._store(found, branch, name))
        target = instant.get("snapshotId", instant.get("tagName"))
        try:
            table.rollback_to(target)
            self._look(found, branch, name)
        except PenstockError as error:
            raise Refusal(404, error.message, instant["type"].upper(), str(target)) from error

    def _look(self, found: Registered, branch: str | None, name: str) -> None:
        """Take the newest snapshot from the files, which this server has changed."""
        store = self._store(found, branch, name)
        latest = store.snapshots.latest_id()
        if latest is not None:
            found.newest[branch or ""] = json.loads(Path(store.paths.snapshot(latest)).read_text())

    def _in_branches(self, found: Registered, name: str, branch: str, act: Callable[[Table], object]) -> None:
        table = Table(self._store(found, None, name))
        existed = branch in table.branches
        try:
            act(table)
            found.newest.pop(branch, None)
            for item in (None, *table.refresh().branches):
                self._look(found, item, name)
        except PenstockError as error:
            code = 409 if existed else 404
            raise Refusal(code, error.message, "BRANCH" if existed else "TAG", branch) from error


AUDIT = {"owner": "tests", "createdAt": 1, "createdBy": "tests", "updatedAt": 1, "updatedBy": "tests"}
COUNTS = ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime")


def keys(node: Any, needed: set[str], allowed: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """Refuse an object with a missing or unknown key."""
    if not isinstance(node, dict):
        raise Refusal(400, f"{node!r} is not an object")
    if node.keys() - needed - allowed or needed - node.keys():
        raise Refusal(400, f"keys are {sorted(node)}, and not {sorted(needed)}")


_MOVES = {"FIRST": "first", "LAST": "last", "AFTER": "after", "BEFORE": "before"}


def _place(node: Node | None) -> dict[str, Any]:
    if node is None:
        return {}
    keys(node, {"fieldName", "referenceFieldName", "type"})
    role = _MOVES[node["type"]]
    return {role: node["referenceFieldName"] if role in {"after", "before"} else True}


def change(node: Node, columns: set[str]) -> SchemaChange:
    """Return the schema change of an object, and change the names of the columns as it does."""
    action, names = node.get("action"), node.get("fieldNames") or []
    if action == "addColumn" and len(names) == 1:
        if names[0] in columns:
            raise Refusal(409, f"column {names[0]} exists", "COLUMN", names[0])
        columns.add(names[0])
    if names and names[0] not in columns:
        raise Refusal(404, f"column {names[0]} does not exist", "COLUMN", names[0])
    if action == "renameColumn" and len(names) == 1:
        columns.add(node["newName"])
    match action:
        case "setOption":
            keys(node, {"action", "key", "value"})
            return penstock.SetOption(node["key"], node["value"])
        case "removeOption":
            keys(node, {"action", "key"})
            return penstock.ResetOption(node["key"])
        case "updateComment":
            keys(node, {"action", "comment"})
            return penstock.UpdateComment(node["comment"])
        case "addColumn":
            keys(node, {"action", "fieldNames", "dataType", "comment", "move"})
            return penstock.AddColumn(names, parse_type(node["dataType"]), node["comment"], **_place(node["move"]))
        case "renameColumn":
            keys(node, {"action", "fieldNames", "newName"})
            return penstock.RenameColumn(names, node["newName"])
        case "dropColumn":
            keys(node, {"action", "fieldNames"})
            return penstock.DropColumn(names)
        case "updateColumnType":
            keys(node, {"action", "fieldNames", "newDataType", "keepNullability"})
            return penstock.UpdateColumnType(names, parse_type(node["newDataType"]), node["keepNullability"])
        case "updateColumnNullability":
            keys(node, {"action", "fieldNames", "newNullability"})
            return penstock.UpdateColumnNullability(names, node["newNullability"])
        case "updateColumnComment":
            keys(node, {"action", "fieldNames", "newComment"})
            return penstock.UpdateColumnComment(names, node["newComment"])
        case "updateColumnDefaultValue":
            keys(node, {"action", "fieldNames", "newDefaultValue"})
            return penstock.UpdateColumnDefault(names, node["newDefaultValue"])
        case "updateColumnPosition":
            keys(node, {"action", "move"})
            return penstock.UpdateColumnPosition(node["move"]["fieldName"], **_place(node["move"]))
    raise Refusal(400, f"{action} is not a change")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET  # noqa: N815 -- the names are those of http.server

    def _answer(self) -> None:
        catalog, path = self.server.catalog, self.path.partition("?")[0]
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = next((item for item in catalog.faults if item.method == self.command and path.endswith(item.end)), None)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                catalog.faults.remove(fault)
            if fault.before is not None:
                fault.before()
        if fault is not None and fault.status is not None:
            self._reply(fault.status, {"message": "a fault of the test", "code": fault.status}, fault.headers)
            return
        headers = {name.lower(): text for name, text in self.headers.items()}
        status, node = catalog.answer(self.command, self.path, data, headers)
        if fault is not None and fault.cut:
            self.close_connection = True
            return
        self._reply(status, node, {})

    def _reply(self, status: int, node: Node | None, headers: Mapping[str, str]) -> None:
        data = b"" if node is None else json.dumps(node).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing: `requests` has all."""


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, catalog: RestCatalogServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog = catalog


@contextmanager
def running(folder: Path) -> Iterator[tuple[RestCatalogServer, dict[str, str]]]:
    """Run a server of the catalog `lake`. Return it with the options of a client."""
    catalog = RestCatalogServer(folder)
    with _Http(catalog) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        options = {"metastore": "rest", "uri": f"http://127.0.0.1:{http.server_port}"}
        try:
            yield catalog, {**options, "token.provider": "bear", "token": TOKEN}
        finally:
            http.shutdown()
