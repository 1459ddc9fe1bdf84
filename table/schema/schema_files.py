"""The files schema/schema-N of a table or branch, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError, TableCorrupt
from penstock.storage.base import Entry, Storage, file_exists, put_if_absent
from penstock.table.schema.json_file import JsonFile, pretty_json
from penstock.table.schema.numbered_files import branch_folder, numbered
from penstock.table.schema.parsed_files import ParsedFiles
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import (
    ArrayType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    field_json,
    parse_field,
)


def schema_json(schema: TableSchema) -> bytes:
    """Return the content of a schema file."""
    # The members are in the order in which Java writes them.
    node: dict[str, object] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_json(column) for column in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": schema.partition_keys,
        "primaryKeys": schema.primary_keys,
        "options": schema.options,
    }
    if schema.comment is not None:
        node["comment"] = schema.comment
    node["timeMillis"] = schema.time_millis
    return pretty_json(node)


def parse_schema(data: bytes, where: str) -> TableSchema:
    """Return the schema in `data`, which was read from the file `where`. Raise TableCorrupt when it is not a schema."""
    return _SCHEMAS.get(data, where)


def _parsed(data: bytes, where: str) -> TableSchema:
    node = JsonFile.parse(data, where)
    version = node.number("version", 1)
    schema = TableSchema(
        id=node.number("id"),
        fields=tuple(_field(column, where) for column in node.array("fields")),
        highest_field_id=node.number("highestFieldId"),
        partition_keys=node.texts("partitionKeys"),
        primary_keys=node.texts("primaryKeys"),
        options=_with_old_defaults(node.text_map("options"), version),
        comment=node.optional_text("comment"),
        time_millis=node.number("timeMillis", 0),
        version=version,
    )
    return _check_whole(schema, where)


# A table that is opened again has the same versions. One object for each keeps the option values that were parsed, and
# caches find it without comparing columns.
_SCHEMAS = ParsedFiles(_parsed, files=256, largest=16 << 10)


def _check_whole(schema: TableSchema, where: str) -> TableSchema:
    """Raise TableCorrupt for duplicate columns and ids, and for keys that are not columns.

    Values are found by the ids of their columns: readers would fail later, or return nulls or the values of others.
    """
    names = [column.name for column in schema.fields]
    # Counting takes quadratic time, so only names of a schema that has a duplicate are counted.
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    missing = sorted({*schema.partition_keys, *schema.primary_keys}.difference(names))
    if twice or missing:
        flaw = f"duplicate columns: {', '.join(twice)}" if twice else f"keys are not columns: {', '.join(missing)}"
        raise TableCorrupt(f"the schema is invalid: {flaw}", file=where)
    _check_ids(schema.fields, "columns", where)
    # The next column that is added would get the id of this one. Members of rows are left out: no value is mistaken if
    # a column has the id of a member.
    last = max(schema.fields, key=lambda column: column.id, default=None)
    if last is not None and last.id > schema.highest_field_id:
        raise TableCorrupt(
            f"the schema is invalid: highestFieldId {schema.highest_field_id} is below the id {last.id} of the column"
            f" {last.name}",
            file=where,
        )
    return schema


def _check_ids(fields: Sequence[Field], kind: str, where: str) -> None:
    """Raise TableCorrupt if two columns of the table, or two members of one row, have the same id."""
    by_id: dict[int, str] = {}
    for field in fields:
        if field.id in by_id:
            raise TableCorrupt(
                f"the schema is invalid: the {kind} {by_id[field.id]}, {field.name} have one id, {field.id}", file=where
            )
        by_id[field.id] = field.name
        _check_ids_inside(field.type, where)


def _check_ids_inside(type_: DataType, where: str) -> None:
    match type_:
        case ArrayType(inner) | MultisetType(inner):
            _check_ids_inside(inner, where)
        case MapType(key, value):
            _check_ids_inside(key, where)
            _check_ids_inside(value, where)
        case RowType(fields):
            _check_ids(fields, "members", where)


def _with_old_defaults(options: dict[str, str], version: int) -> dict[str, str]:
    # The defaults of these options have changed. A missing option means the default of the release that wrote the file.
    meant = {"bucket": "1"} if version <= 1 else {}
    if version <= 2:
        meant["file.format"] = "orc"
    return {**meant, **options} if meant else options


def _field(node: object, where: str) -> Field:
    if not isinstance(node, dict):
        raise TableCorrupt(f"{node!r:.100} is not a column", file=where)
    try:
        return parse_field(node)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as reason:
        raise TableCorrupt(f"a column is invalid: {reason!r}", file=where, column=node.get("name")) from reason
    except ConfigError as reason:
        raise TableCorrupt(reason.message, file=where, column=node.get("name"), hint=reason.hint) from reason


class SchemaFiles:
    """The schema versions of a table, or of one of its branches.

    Each version is read once, and again when its file has been replaced: a fast-forward replaces the versions of the
    main branch by those of another branch, and a table that is dropped and created again starts at version 0. A
    replaced file is detected by its time and size in the listing.
    """

    def __init__(self, storage: Storage, table_path: str, branch: str | None = None) -> None:
        self._storage = storage
        self._table = table_path
        self._folder = f"{branch_folder(table_path, branch)}/schema"
        self._known: dict[int, tuple[Entry | None, TableSchema]] = {}
        self._listed: dict[int, Entry] = {}

    def on_branch(self, branch: str | None) -> SchemaFiles:
        """Return the schema versions of another branch of the table."""
        return SchemaFiles(self._storage, self._table, branch)

    def path(self, schema_id: int) -> str:
        return f"{self._folder}/schema-{schema_id}"

    def ids(self) -> list[int]:
        """Return the ids of all versions in ascending order, by listing.

        Forget the cached versions whose file has changed.
        """
        self._listed = entries = numbered(self._storage, self._folder, "schema-")
        for schema_id, (seen, _) in list(self._known.items()):
            # Without an entry nothing is known about the file that the version was read from.
            if seen is None or entries.get(schema_id) != seen:
                self._known.pop(schema_id, None)
        return sorted(entries)

    def exist(self) -> bool:
        """Return whether the table exists. A listing may lag behind its creation."""
        return bool(self.ids()) or file_exists(self._storage, self.path(0))

    def created_millis(self) -> int:
        """Return the time of the first version, as it is in the store now. Another time means another table."""
        return self.get(min(self.ids(), default=0)).time_millis

    def latest(self) -> TableSchema | None:
        """Return the newest version that exists now, or None when the table does not exist."""
        ids = self.ids()
        # A listing may lag behind the latest writes, also behind the creation of the table.
        if not ids and not file_exists(self._storage, self.path(0)):
            return None
        newest = ids[-1] if ids else 0
        while file_exists(self._storage, self.path(newest + 1)):
            newest += 1
        return self.get(newest)

    def last_read(self) -> TableSchema | None:
        """Return the newest version that this process has read, without a request; None when the table does not exist.

        Right after `latest` it is the newest version that exists. Later it may be older.
        """
        known = max(list(self._known), default=None)
        return self.latest() if known is None else self.get(known)

    def get(self, schema_id: int) -> TableSchema:
        """Return a version that a file or a snapshot refers to. Raise TableCorrupt when it does not exist."""
        known = self._known.get(schema_id)
        if known is not None:
            return known[1]
        path = self.path(schema_id)
        try:
            data = self._storage.read(path)
        except FileNotFoundError as reason:
            raise TableCorrupt(f"schema {schema_id} is missing", file=path) from reason
        schema = parse_schema(data, path)
        # Cached under the entry of the listing before this read: if the file has changed since then, the next listing
        # differs.
        self._known[schema_id] = self._listed.get(schema_id), schema
        return schema

    def is_newest(self, schema: TableSchema) -> bool:
        """Return whether no version follows this one, with one request."""
        return not file_exists(self._storage, self.path(schema.id + 1))

    def is_current(self, schema: TableSchema) -> bool:
        """Return whether the version with this id still has the same content."""
        ids = self.ids()
        return (schema.id in ids or file_exists(self._storage, self.path(schema.id))) and self.get(schema.id) == schema

    def create(self, schema: TableSchema) -> bool:
        """Create the version.

        Return False, with nothing changed, when another writer has created a version with this id.
        """
        return put_if_absent(self._storage, self.path(schema.id), schema_json(schema))
