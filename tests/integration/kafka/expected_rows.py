"""The rows that a table must have after random records of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.integration.kafka.random_messages import Change, Row
from tests.integration.kafka.random_records import Record

# Columns that depend on the time of a run.
_OF_THE_RUN = {"_deleted", "_deleted_at", "valid_from", "valid_to", "_operation", "_position", "_end_position"}


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """`kind` is what the tables do with changes.

    `filters`: rows whose `n` is 50 or more are left out. `has_deletes`: messages may be other changes than inserts.
    `has_places`: rows have columns with the place of their record. `computes`: they have columns computed from `v`.
    """

    kind: str
    filters: bool
    has_deletes: bool
    has_places: bool
    computes: bool = False

    def passes(self, row: Row | None) -> bool:
        return row is not None and not (self.filters and row["n"] >= 50)

    def check(self, name: str, actual: Iterable[Row], records: Sequence[Record]) -> None:
        """Compare the rows of a table with those that these records give, as texts: formats may declare no types."""
        if self.kind == "sum":
            actual = [{column: row.get(column) for column in ("id", "n")} for row in actual]
        if self.kind == "soft":
            actual = [row for row in actual if not row["_deleted"]]
        kept = [{column: value for column, value in row.items() if column not in _OF_THE_RUN} for row in actual]
        found, wanted = (
            Counter(tuple(sorted(_text(row).items())) for row in rows) for rows in (kept, self.of(records))
        )
        assert found == wanted, f"{name} lacks {wanted - found}, has too many {found - wanted}"

    def of(self, records: Sequence[Record]) -> list[Row]:
        match self.kind:
            case "append":
                return [self._placed(record, after) for record, _, after in self._images(records) if after is not None]
            case "sum":
                return self._sums(records)
            case "first":
                first: dict[int, Row] = {}
                for _, _, after in self._images(records):
                    if after is not None:
                        first.setdefault(after["id"], after)
                return list(first.values())
            case "history":
                return self._versions(records)
        return self._newest(records)

    def _images(self, records: Sequence[Record]) -> Iterable[tuple[Record, Row | None, Row | None]]:
        """Yield the rows before and after each change, as far as they pass the filter."""
        for record in records:
            change = _change(record)
            yield record, *(self._computed(row) if self.passes(row) else None for row in (change.before, change.after))

    def _computed(self, row: Row | None) -> Row | None:
        text = None if row is None else row["v"]
        if row is None or not self.computes:
            return row
        return row | {"upper_v": None if text is None else text.upper(), "rest_v": None if text is None else text[1:]}

    def _sums(self, records: Sequence[Record]) -> list[Row]:
        sums: dict[int, Row] = {}
        for _, before, after in self._images(records):
            for image, sign in ((before, -1), (after, 1)):
                if image is not None:
                    row = sums.setdefault(image["id"], {"id": image["id"], "n": 0})
                    row["n"] += sign * image["n"]
        return list(sums.values())

    def _versions(self, records: Sequence[Record]) -> list[Row]:
        current, versions = dict[int, Row](), list[Row]()
        for record, _, after in self._images(records):
            keys = {image["id"] for image in (_change(record).before, after) if image is not None}
            for key in keys:
                now = after if after is not None and after["id"] == key else None
                then = current.get(key)
                if then is not None and (now is None or _text(then | {"is_current": None}) != _text(now)):
                    current.pop(key)["is_current"] = False
                if now is not None and key not in current:
                    current[key] = {**now, "is_current": True}
                    versions.append(current[key])
        return versions

    def _newest(self, records: Sequence[Record]) -> list[Row]:
        rows: dict[int, Row] = {}
        for record, _, after in self._images(records):
            before = _change(record).before
            if before is not None and (after is None or after["id"] != before["id"]):
                rows.pop(before["id"], None)
            elif after is None and self.has_deletes:
                rows.pop(_change(record).row["id"], None)
            # Else an insert that is left out says nothing of older rows.
            if after is not None:
                known = rows.get(after["id"], {}) if self.kind == "partial" else {}
                given = {name: value for name, value in after.items() if value is not None}
                rows[after["id"]] = self._placed(record, known | given)
        return list(rows.values())

    def _placed(self, record: Record, row: Row) -> Row:
        place = {"_topic": record.place[0], "_partition": record.place[1], "_offset": record.offset}
        return row | place if self.has_places else row


def _change(record: Record) -> Change:
    assert record.change is not None
    return record.change


def _text(row: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in row.items() if value is not None}
