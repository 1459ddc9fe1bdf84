"""One version of a table's schema."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.table.options.table_options import TableOptions
from penstock.table.values.types import Field


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's schema, with the fields of a schema file."""

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    version: int = 3
    typed: TableOptions = field(init=False, repr=False, compare=False)  # the options as typed values

    def __post_init__(self) -> None:
        object.__setattr__(self, "typed", TableOptions(self.options))

    def __hash__(self) -> int:
        # Caches are keyed by schemas. A version of a table never changes, so hashing all its columns would hardly
        # distinguish more schemas. One read may have other options than the next.
        options = frozenset(self.options.items())
        return hash((self.id, self.time_millis, self.highest_field_id, self.primary_keys, options))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Return the primary key without the partition columns, or all of it if no other column would remain."""
        trimmed = tuple(key for key in self.primary_keys if key not in self.partition_keys)
        return trimmed or self.primary_keys

    def field(self, name: str) -> Field:
        return next(column for column in self.fields if column.name == name)

    def select(self, names: tuple[str, ...]) -> tuple[Field, ...]:
        """Return the named columns, in the order of the names."""
        if not names:
            return ()
        by_name = {column.name: column for column in self.fields}
        return tuple(by_name[name] for name in names)
