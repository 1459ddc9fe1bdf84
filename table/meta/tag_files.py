"""Tags: named snapshots that do not expire with the others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from penstock.errors import TableCorrupt, nearest
from penstock.storage.base import Storage, file_exists, put_if_absent
from penstock.table.errors import TagMissing
from penstock.table.meta.snapshot import Snapshot, snapshot_node, snapshot_of
from penstock.table.schema.json_file import JsonFile, pretty_json
from penstock.table.schema.numbered_files import branch_folder
from penstock.table.schema.parsed_files import ParsedFiles
from penstock.table.values.names import LONGEST_NEW, path_step

NANOS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 10  # tags that an error lists: a table may have a thousand


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag. The times are None unless the tag expires by itself; `created_nanos` is its creator's local wall clock."""

    name: str
    snapshot: Snapshot
    created_nanos: int | None = None
    retained_nanos: int | None = None


_Content: TypeAlias = tuple[Snapshot, int | None, int | None]


def tag_json(tag: Tag) -> bytes:
    """Return the content of a tag's file: its snapshot, with the members of the tag."""
    node = snapshot_node(tag.snapshot)
    if tag.created_nanos is not None:
        node["tagCreateTime"] = _time_parts(tag.created_nanos)
    if tag.retained_nanos is not None:
        # Java writes a duration as seconds with nine digits.
        node["tagTimeRetained"] = Decimal(tag.retained_nanos).scaleb(-9).quantize(Decimal("1.000000000"))
    return pretty_json(node)


def parse_tag(data: bytes, name: str, where: str) -> Tag:
    """Return the tag in `data`, which was read from the file `where`."""
    return Tag(name, *_CONTENTS.get(data, where))


def _parsed(data: bytes, where: str) -> _Content:
    node = JsonFile.parse(data, where)
    try:
        created = _nanos_of_parts(node.values.get("tagCreateTime"))
        retained = _nanos_of_seconds(node.values.get("tagTimeRetained"))
    except (ArithmeticError, TypeError, ValueError) as reason:
        raise TableCorrupt(f"the times of the tag are invalid: {reason}", file=where) from reason
    return snapshot_of(node), created, retained


# Deletions of tags, expiry and rollbacks read all tags.
_CONTENTS = ParsedFiles[_Content](_parsed, files=2048, largest=4 << 10)


def _time_parts(nanos: int) -> list[int]:
    # [year, month, day, hour, minute, second, nanosecond]; zero seconds and nanoseconds at the end are left out
    seconds, fraction = divmod(nanos, NANOS)
    at = EPOCH + timedelta(seconds=seconds)
    parts = [at.year, at.month, at.day, at.hour, at.minute]
    if at.second or fraction:
        parts.append(at.second)
    return [*parts, fraction] if fraction else parts


def _nanos_of_parts(parts: object) -> int | None:
    if parts is None:
        return None
    if not isinstance(parts, list) or not 3 <= len(parts) <= 7:
        raise ValueError(f"{parts!r:.100} is not a date and time")
    # Parts that are left out are zero.
    year, month, day, hour, minute, second, nano = (int(part) for part in [*parts, 0, 0, 0, 0][:7])
    at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    return (at - EPOCH) // timedelta(seconds=1) * NANOS + nano


def _nanos_of_seconds(seconds: object) -> int | None:
    if seconds is None:
        return None
    amount = Decimal(str(seconds))
    if not abs(amount) < 2**63:
        raise ValueError(f"{amount:.20} seconds is not a valid time to keep a tag")
    return int(amount.scaleb(9))


class TagFiles:
    """The tag files of a table or branch."""

    def __init__(self, storage: Storage, table_path: str, branch: str | None = None) -> None:
        self._storage = storage
        self._table = table_path
        self._folder = f"{branch_folder(table_path, branch)}/tag"

    def path(self, name: str) -> str:
        return f"{self._folder}/tag-{path_step(name, 'tag', table=self._table)}"

    def names(self) -> list[str]:
        names = (entry.name for entry in self._storage.list(self._folder) if not entry.is_dir)
        return sorted(name.removeprefix("tag-") for name in names if name.startswith("tag-"))

    def written(self) -> dict[str, int]:
        """Return when each tag's file was written, in epoch milliseconds; 0 if the store does not know it."""
        found = self._storage.list(self._folder)
        return {file.name.removeprefix("tag-"): file.modified for file in found if file.name.startswith("tag-")}

    def all(self) -> list[Tag]:
        """Return every tag, sorted by snapshot id and then by name.

        A tag that is renamed meanwhile is among them. Maintenance would delete the files of a tag that is not.
        """
        known: set[str] = set()
        while True:
            names = self.names()
            found = [tag for name in names if (tag := self.find(name)) is not None]
            gone = {*names} - {tag.name for tag in found}
            # The snapshot of a tag that is gone may have another tag since the listing. A tag that is listed again
            # although it is gone is one of a stale listing.
            if gone <= known:
                return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))
            known |= gone

    def find(self, name: str) -> Tag | None:
        """Return the tag, or None if it does not exist."""
        path = self.path(name)
        try:
            return parse_tag(self._storage.read(path), name, path)
        except FileNotFoundError:
            return None

    def get(self, name: str) -> Tag:
        """Return the tag. Raise TagMissing if it does not exist."""
        tag = self.find(name)
        if tag is None:
            raise self.missing(name)
        return tag

    def missing(self, name: str) -> TagMissing:
        """Return the error for an unknown tag; its hint names a similar one, or some of those that exist."""
        names = self.names()
        near, shown = nearest(name, names), ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
        hint = f"did you mean {near!r}?" if near else f"tags are {shown}" if names else "the table has no tags"
        return TagMissing(f"there is no tag {name!r}", table=self._table, hint=hint)

    def create(self, tag: Tag) -> bool:
        """Create the tag. Return False, with nothing changed, when a tag with this name exists."""
        path = self.path(path_step(tag.name, "tag", longest=LONGEST_NEW, table=self._table))
        # put_if_absent alone would report success for an existing tag with the same content.
        return not file_exists(self._storage, path) and put_if_absent(self._storage, path, tag_json(tag))

    def delete(self, name: str) -> None:
        """Delete the tag's file only. Do nothing when it does not exist."""
        self._storage.delete(self.path(name))
