"""The partitions of a dimension that are looked up: the newest ones, or given ones.

The texts have the form of Paimon's option `scan.partitions`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.partition_values import partition_values

if TYPE_CHECKING:
    from penstock.table.read.splits import Split

_NEWEST = {"max_pt()": 1, "max_two_pt()": 2}
_FORM = "write  max_pt(), max_two_pt(), or partitions such as  dt=2024-05-06,hour=1;dt=2024-05-07"
_PAIR = re.compile(r"\s*([^=,;\s]+)\s*=\s*([^,;]*?)\s*")


@dataclass(frozen=True, slots=True)
class LookupPartitions:
    """The choice of partitions: the `newest` ones of the snapshot that is looked up, or ones with `given` values."""

    newest: int = 0
    given: tuple[tuple[tuple[str, str], ...], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LookupPartitions:
        """Parse `max_pt()`, `max_two_pt()`, or partitions separated by semicolons."""
        newest = _NEWEST.get(text.strip().lower())
        if newest is not None:
            return cls(newest)
        given = []
        for part in text.split(";"):
            pairs = [_PAIR.fullmatch(pair) for pair in part.split(",")]
            if not all(pairs):
                raise ConfigError(f"{text!r} does not name partitions of a dimension", hint=_FORM)
            given.append(tuple((pair[1], pair[2]) for pair in pairs if pair is not None))
        return cls(0, tuple(given))

    def is_one(self, schema: TableSchema) -> bool:
        """Return whether all rows come from a single partition."""
        return self.newest == 1 or [{name for name, _ in pairs} for pairs in self.given] == [set(schema.partition_keys)]

    def check(self, schema: TableSchema, table: str) -> None:
        """Raise ConfigError unless the table has the partition columns."""
        if not schema.partition_keys:
            raise ConfigError(
                "partitions of a lookup are chosen, and the table has none", table=table, hint="leave the choice out"
            )
        self._values(Layout.of(schema))

    def of(self, layout: Layout, splits: Sequence[Split]) -> list[Split]:
        """Return the splits of the chosen partitions."""
        chosen = self._chosen(layout, {split.partition for split in splits})
        return [split for split in splits if split.partition in chosen]

    def _chosen(self, layout: Layout, partitions: Collection[bytes]) -> set[bytes]:
        if self.newest:
            return set(
                sorted(partitions, key=lambda partition: _order(layout.partition_values(partition)))[-self.newest :]
            )
        names = [field.name for field in layout.partition_fields]
        values = {
            partition: dict(zip(names, layout.partition_values(partition), strict=True)) for partition in partitions
        }
        wanted = self._values(layout)
        return {partition for partition, has in values.items() if any(spec.items() <= has.items() for spec in wanted)}

    def _values(self, layout: Layout) -> list[dict[str, object]]:
        return [partition_values(dict(pairs), layout.partition_fields) for pairs in self.given]


def _order(values: Sequence[object]) -> list[tuple[bool, object]]:
    """Return a key by which partitions are sorted; null is less than any value."""
    return [(value is not None, value) for value in values]
