"""The JSON of a snapshot file, with the key order and format of Java Paimon 1.3.1."""

from __future__ import annotations

from penstock.errors import TableCorrupt
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.schema.json_file import JsonFile, pretty_json

VERSION = 3


def snapshot_json(snapshot: Snapshot) -> bytes:
    return pretty_json(snapshot_node(snapshot))


def snapshot_node(snapshot: Snapshot) -> dict[str, object]:
    """Return the JSON object of a snapshot.

    Keys whose value is None are left out, as Java does, except for changelogManifestList.
    """
    node: dict[str, object] = {
        "version": VERSION,
        "id": snapshot.id,
        "schemaId": snapshot.schema_id,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": snapshot.base_manifest_list_size,
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": snapshot.delta_manifest_list_size,
        "changelogManifestList": snapshot.changelog_manifest_list,
        "changelogManifestListSize": snapshot.changelog_manifest_list_size,
        "indexManifest": snapshot.index_manifest,
        "commitUser": snapshot.commit_user,
        "commitIdentifier": snapshot.commit_identifier,
        "commitKind": snapshot.commit_kind.value,
        "timeMillis": snapshot.time_millis,
        "logOffsets": {},
        "totalRecordCount": snapshot.total_record_count,
        "deltaRecordCount": snapshot.delta_record_count,
        "changelogRecordCount": snapshot.changelog_record_count,
        "watermark": snapshot.watermark,
        "statistics": snapshot.statistics,
        "properties": snapshot.properties or None,
        "nextRowId": snapshot.next_row_id,
    }
    return {key: value for key, value in node.items() if value is not None or key == "changelogManifestList"}


def parse_snapshot(data: bytes, where: str) -> Snapshot:
    """Return the snapshot in `data`, which was read from the file `where`.

    Raise TableCorrupt when it is not a snapshot.
    """
    return snapshot_of(JsonFile.parse(data, where))


def snapshot_of(node: JsonFile) -> Snapshot:
    version = node.number("version", 1)
    if version > VERSION:
        raise TableCorrupt(
            f"snapshot version {version} is newer than {VERSION}, the newest supported version",
            file=node.where,
            hint="use a newer release of Penstock",
        )
    return Snapshot(
        id=node.number("id"),
        schema_id=node.number("schemaId"),
        base_manifest_list=node.text("baseManifestList"),
        delta_manifest_list=node.text("deltaManifestList"),
        commit_user=node.text("commitUser"),
        commit_identifier=node.number("commitIdentifier"),
        commit_kind=_kind(node),
        time_millis=node.number("timeMillis"),
        total_record_count=node.number("totalRecordCount", 0),
        delta_record_count=node.number("deltaRecordCount", 0),
        base_manifest_list_size=node.optional_number("baseManifestListSize"),
        delta_manifest_list_size=node.optional_number("deltaManifestListSize"),
        changelog_manifest_list=node.optional_text("changelogManifestList"),
        changelog_manifest_list_size=node.optional_number("changelogManifestListSize"),
        changelog_record_count=node.number("changelogRecordCount", 0),
        index_manifest=node.optional_text("indexManifest"),
        watermark=node.optional_number("watermark"),
        statistics=node.optional_text("statistics"),
        properties=node.text_map("properties"),
        next_row_id=node.number("nextRowId", 0),
    )


def _kind(node: JsonFile) -> CommitKind:
    text = node.text("commitKind")
    try:
        return CommitKind(text)
    except ValueError as reason:
        known = ", ".join(CommitKind)
        raise TableCorrupt(f"{text!r} is not a commit kind", file=node.where, known=known) from reason
