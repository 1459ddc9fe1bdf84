"""The collections of a server, as far as they can be captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from penstock.ingest.database.settings import CapturedTables
    from penstock.ingest.mongodb.server.connection import MongoConnection

TableName: TypeAlias = tuple[str, str]  # database and collection
_INTERNAL = {"admin", "config", "local"}


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection. `identity` changes when it is dropped and created again, or replaced by a rename.

    `has_images` says that the server keeps its documents as they were before and after each change.
    """

    database: str
    name: str
    kind: str
    identity: str
    has_images: bool = False

    @property
    def table(self) -> TableName:
        return self.database, self.name

    @property
    def has_stream(self) -> bool:
        """True if it has a change stream; views and time series do not."""
        return self.kind == "collection"


def selected_collections(connection: MongoConnection, tables: CapturedTables, literal: str | None) -> list[Collection]:
    """Return the selected collections, with views; `literal` is the only database, if the pattern is a name."""
    names = [literal] if literal is not None else databases(connection)
    found = [collection for name in names for collection in _collections(connection, name)]
    return [collection for collection in found if tables.includes(*collection.table)]


def databases(connection: MongoConnection) -> list[str]:
    """Return the databases of users."""
    found = connection.command("admin", {"listDatabases": 1, "nameOnly": True})["databases"]
    return [str(database["name"]) for database in found if database["name"] not in _INTERNAL]


def _collections(connection: MongoConnection, database: str) -> list[Collection]:
    found = connection.client[database].list_collections(session=connection.session)
    listed = [_collection(database, node) for node in found if not str(node["name"]).startswith("system.")]
    return sorted(listed, key=lambda collection: collection.name)


def _collection(database: str, listed: Mapping[str, Any]) -> Collection:
    identity = listed.get("info", {}).get("uuid")
    kind = str(listed.get("type", "collection"))
    has_images = bool(listed.get("options", {}).get("changeStreamPreAndPostImages", {}).get("enabled"))
    text = "" if identity is None else bytes(identity).hex()
    return Collection(database, str(listed["name"]), kind, text, has_images)


def row_count(connection: MongoConnection, table: TableName) -> int:
    """Return the server's count from its metadata, which may be off after a crash."""
    return int(connection.command(table[0], {"count": table[1]})["n"])
