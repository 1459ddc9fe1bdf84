"""Partitions that are chosen by the values of some of their columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.options.partitions import PARTITION_DEFAULT_NAME
from penstock.table.values.arguments import mappings
from penstock.table.values.binary_row import decode_row
from penstock.table.values.partition_values import exact_value, partition_values
from penstock.table.values.types import AtomicType

_TEXTS = {"CHAR", "VARCHAR"}


class PartitionSpecs:
    """Values of some or all of the partition columns, for each spec.

    Specs that name the same columns are found by their values, so that thousands of partitions may be compared with
    thousands of specs.
    """

    def __init__(
        self, layout: Layout, specs: Iterable[Mapping[str, object]], doubted: PartitionSpecs | None = None
    ) -> None:
        self._columns, self._types = layout.schema.partition_keys, layout.partition_types
        self._by_columns: dict[tuple[str, ...], dict[tuple[Hashable, ...], list[int]]] = {}
        self._known: dict[bytes, frozenset[int]] = {}
        self._doubted = doubted
        for number, spec in enumerate(specs):
            by_values = self._by_columns.setdefault(tuple(sorted(spec)), {})
            by_values.setdefault(tuple(_identity(spec[name]) for name in sorted(spec)), []).append(number)

    @classmethod
    def of(cls, layout: Layout, given: Iterable[Mapping[str, object]]) -> PartitionSpecs:
        """Build from partition values given as text or as Python values. ConfigError for an unknown column.

        The name of the default partition means null. A comparison with a partition whose text is that name raises
        ConfigError: the user may mean either.
        """
        default, fields = layout.schema.typed[PARTITION_DEFAULT_NAME], layout.partition_fields
        specs = mappings(given, "partitions")
        meant = [partition_values(spec, fields, default) for spec in specs]
        as_texts = [as_text for spec in specs if (as_text := _as_text(spec, layout, default))]
        doubted = [partition_values(spec, fields, default) for spec in as_texts]
        return cls(layout, meant, cls(layout, doubted) if doubted else None)

    @property
    def choose_some(self) -> bool:
        """Return whether there is a spec that names a column."""
        return any(self._by_columns)

    def covers(self, partition: bytes) -> bool:
        """Return whether the partition has the values of one of the specs."""
        return bool(self.covering(partition))

    def covering(self, partition: bytes) -> frozenset[int]:
        """Return the numbers of the specs whose values the partition has."""
        found = self._known.get(partition)
        if found is None:
            if self._doubted is not None and self._doubted.covers(partition):
                raise ConfigError(
                    "the name of the default partition means null, and a partition has this text as its value",
                    columns=", ".join(self._columns),
                    hint="for null pass NULL in SQL, or None in Python; for the text pass pyarrow.scalar(text) in "
                    "Python, or delete its rows by a condition: DELETE FROM t WHERE column = 'text'",
                )
            found = self._known[partition] = frozenset(self._found(partition))
        return found

    def _found(self, partition: bytes) -> Iterable[int]:
        values = zip(self._columns, decode_row(partition, self._types), strict=True)
        found = {name: _identity(value) for name, value in values}
        for columns, by_values in self._by_columns.items():
            yield from by_values.get(tuple(found[name] for name in columns), ())


def spec_of(layout: Layout, partition: bytes) -> dict[str, object]:
    """Return the spec that chooses one partition."""
    values = zip(layout.schema.partition_keys, layout.partition_values(partition), strict=True)
    return {name: exact_value(value) for name, value in values}


def _as_text(spec: Mapping[str, object], layout: Layout, default: str) -> dict[str, object] | None:
    """Return the spec with texts instead of nulls. None if it does not name the default partition of a text column."""
    texts = {
        field.name
        for field in layout.partition_fields
        if isinstance(field.type, AtomicType) and field.type.root in _TEXTS and spec.get(field.name) == default
    }
    return {name: exact_value(value) if name in texts else value for name, value in spec.items()} if texts else None


def _identity(value: object) -> Hashable:
    """Return a key that equal values of a partition share. As in Java, both zeros differ, and NaN is equal to NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    assert isinstance(value, Hashable)
    return value
