"""The REST catalog: a server owns the names, schemas and newest snapshots of tables, in Paimon's REST protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ConfigError, PenstockError, counted
from penstock.json_answers import expected, expected_texts, named
from penstock.storage.base import Storage
from penstock.storage.catalog_options import split_options
from penstock.storage.environment import Environment
from penstock.storage.open import open_storage
from penstock.storage.options import check_known, is_store_option
from penstock.table.catalog.base import CatalogBackend, not_paimon, split_name
from penstock.table.catalog.kept_views import KeptView
from penstock.table.catalog.rest_client import HEADER, RestServer, server_address
from penstock.table.catalog.rest_commits import RestCommits, table_path
from penstock.table.catalog.rest_login import LOGIN, LOGIN_PREFIX, check_login
from penstock.table.catalog.rest_replies import RestExists, RestMissing, RestUnsupported
from penstock.table.catalog.rest_schemas import schema_node
from penstock.table.catalog.rest_storage import DATA_TOKEN, TokenStorage
from penstock.table.catalog.rest_views import view_node, view_of
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.options.kinds import parse_boolean
from penstock.table.schema.table_schema import TableSchema

_LONGEST_NAME = 255  # the folders of tables may be in any store; this is the least of all that are supported
_USERS, _TIMES = ("owner", "createdBy", "updatedBy"), ("createdAt", "updatedAt")


class RestCatalog(CatalogBackend):
    """The databases and tables of a server. `warehouse` is the name of a catalog there, and not a folder.

    Clients read and write the files of tables. Only the files of snapshots and schemas are written by the server.
    """

    def __init__(self, server: RestServer, environment: Environment) -> None:
        self._server, self._environment = server, environment

    @property
    def longest_name(self) -> int:
        return _LONGEST_NAME

    @property
    def owns_versions(self) -> bool:
        return True

    def check(self) -> str:
        """Check that the server answers, and accepts the login."""
        return (
            f"{self._server} answers and has {counted(len(self.databases()), 'database')} in {self._server.warehouse}"
        )

    def databases(self) -> list[str]:
        return sorted(self._server.listed("databases", key="databases"))

    def has_database(self, database: str) -> bool:
        try:
            self._server.get("databases", database)
        except RestMissing:
            return False
        return True

    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        self._server.post("databases", body={"name": database, "options": dict(properties)})

    def database_properties(self, database: str) -> dict[str, str]:
        found = self._server.get("databases", database)
        with self._server.replying("databases", database):
            location = expected_texts({"location": found.get("location") or None}, "the database")
            return {**expected_texts(found.get("options"), "options"), **location}

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        updates = {key: text for key, text in changes.items() if text is not None}
        body = {"removals": sorted(changes.keys() - updates.keys()), "updates": updates}
        self._server.post("databases", database, body=body)

    def drop_database(self, database: str) -> None:
        self._server.delete("databases", database)

    def tables(self, database: str) -> list[str]:
        """Return the Paimon tables of the database; a server may also have tables of other formats."""
        query = {"tableType": "table"}
        return sorted(self._server.listed("databases", database, "tables", key="tables", query=query))

    def possible_tables(self, database: str) -> list[str]:
        try:
            return self.tables(database)
        except RestMissing:
            return []

    def views(self, database: str) -> list[str]:
        """Return the views of the database; none if the server has tables only."""
        try:
            return sorted(self._server.listed("databases", database, "views", key="views"))
        except (RestMissing, RestUnsupported):
            return []

    def view(self, name: str) -> KeptView | None:
        try:
            reply = self._server.get(*_view_path(name))
        except (RestMissing, RestUnsupported):
            return None
        with self._server.replying(*_view_path(name)):
            return view_of(name, reply)

    def create_view(self, view: KeptView) -> bool:
        database, name = split_name(view.name)
        body = {"identifier": {"database": database, "object": name}, "schema": view_node(view)}
        try:
            self._server.post("databases", database, "views", body=body)
        except RestExists:
            return False
        return True

    def replace_view(self, view: KeptView) -> None:
        """Drop the view and create it again, as Java does: the protocol cannot change the query of a view."""
        self.drop_view(view.name)
        try:
            self.create_view(view)
        except PenstockError as error:
            error.facts.setdefault("view", view.name)
            error.hint = "the former view is dropped, and the new one may be missing: run the statement again"
            raise

    def rename_view(self, name: str, new_name: str) -> None:
        self._rename("views", name, new_name)

    def drop_view(self, name: str) -> None:
        self._server.delete(*_view_path(name))

    def audit(self, name: str) -> Mapping[str, object]:
        reply = self._table(name)
        with self._server.replying(*table_path(name)):
            texts = expected_texts({key: reply.get(key) for key in _USERS if reply.get(key) is not None}, "the table")
            times = {key: expected(reply[key], int, key) for key in _TIMES if reply.get(key) is not None}
        return {**texts, **times}

    def has_table(self, name: str) -> bool:
        found = self._found(name)
        return found is not None and self._kind(name, found) == "table"

    def _found(self, name: str) -> dict[str, Any] | None:
        try:
            # A table is absent only if the server does not know its name. A table that the server forbids is an error.
            return self._server.get(*table_path(name))
        except RestMissing:
            return None

    def _table(self, name: str) -> dict[str, Any]:
        found = self._found(name)
        if found is None:
            raise TableMissing("there is no table", table=name, uri=str(self._server))
        kind = self._kind(name, found)
        if kind != "table":
            raise not_paimon(name, kind, uri=str(self._server))
        return found

    def _kind(self, name: str, reply: Mapping[str, Any]) -> str:
        with self._server.replying(*table_path(name)):
            schema = expected(reply.get("schema") or {}, dict, "schema")
            return expected_texts(schema.get("options"), "schema.options").get("type", "table").lower()

    def open(self, name: str, branch: str | None) -> TableStore:
        found = self._table(name)
        storage, root = self._place(name, found)
        with self._server.replying(*table_path(name)):
            commits = RestCommits(self._server, named(found, "id"))
        return TableStore.open(storage, root, branch, self._environment, commits, name)

    def _place(self, name: str, reply: Mapping[str, Any]) -> tuple[Storage, str]:
        """Open the store of a table. Its options are the user's and the server's."""
        settings = self._server.settings
        with self._server.replying(*table_path(name)):
            url = named(reply, "path")
        options = {key: text for key, text in settings.items() if is_store_option(key)}
        storage, root = open_storage(url, options)
        if parse_boolean(settings.get(DATA_TOKEN, "false")) and not reply.get("isExternal"):
            storage = TokenStorage(self._server, name, url, tuple(sorted(options.items())))
        return storage, root.rstrip("/")

    def create_table(self, name: str, schema: TableSchema) -> bool:
        database, _ = split_name(name)
        try:
            return self._create(name, schema)
        except RestMissing:
            self._create_missing(database)
            # Only once: if the server still answers "not found", it does not mean the database.
            return self._create(name, schema)

    def _create(self, name: str, schema: TableSchema) -> bool:
        database, table = split_name(name)
        body = {"identifier": {"database": database, "object": table}, "schema": schema_node(schema)}
        try:
            self._server.post("databases", database, "tables", body=body)
        except RestExists:
            self._table(name)
            return False
        return True

    def _create_missing(self, database: str) -> None:
        try:
            self.create_database(database, {})
        except RestExists:
            return  # another process was faster

    def drop_table(self, name: str) -> None:
        """Delete the table. Whether its files are deleted is decided by the server."""
        _, root = self._place(name, self._table(name))
        self._server.delete(*table_path(name))
        _forget(root)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename the table. Whether its files move is decided by the server."""
        _, root = self._place(name, self._table(name))
        self._rename("tables", name, new_name)
        _forget(root)

    def _rename(self, kind: str, name: str, new_name: str) -> None:
        names = {}
        for role, given in (("source", name), ("destination", new_name)):
            database, renamed = split_name(given)
            names[role] = {"database": database, "object": renamed}
        self._server.post(kind, "rename", body=names)


def _view_path(name: str) -> tuple[str, ...]:
    database, view = split_name(name)
    return "databases", database, "views", view


def _forget(root: str) -> None:
    from penstock.table.dynamic_buckets.local_caches import forget_table  # much code, and tasks drop no tables

    forget_table(root)


_ACTING = ("uri", "case-sensitive", DATA_TOKEN, *LOGIN)


def open_rest(warehouse: str, options: Mapping[str, str], environment: Environment) -> RestCatalog:
    """Open the catalog `warehouse` of the server at `uri`."""
    given, store = split_options("rest", options, _ACTING, (HEADER, LOGIN_PREFIX))
    if not given.get("uri"):
        raise ConfigError("a REST catalog needs a uri", option="uri", hint="for example https://catalog.example:8443")
    if given.get("case-sensitive", "true").strip().lower() != "true":
        raise ConfigError(
            "case-sensitive = false is not supported by a REST catalog",
            option="case-sensitive",
            hint="remove it: the server decides which names are the same",
        )
    check_login(given)
    check_known(store)
    sent = tuple(sorted({**given, **store}.items()))
    return RestCatalog(RestServer(server_address(given["uri"]), warehouse, sent, environment), environment)
