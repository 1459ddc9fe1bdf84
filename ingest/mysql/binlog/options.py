"""Options of decoding the binlog; plain data that can be sent to a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.formats.change import ChangeBatch, ImagePolicy, ImageRule, TableName
from penstock.ingest.mysql.definition import TableDefinition
from penstock.ingest.mysql.table_choice import EveryTable, TableChoice
from penstock.ingest.mysql.values.rules import ValueRules


class Definitions(Protocol):
    """Table definitions as of a position in the binlog.

    With `named`, the table map contains the column names itself.
    """

    def definition_at(self, name: tuple[str, str], file: str, pos: int, *, named: bool) -> TableDefinition | None: ...

    def is_skipped(self, name: tuple[str, str], file: str, pos: int) -> bool:
        """Return whether the table's rows are not read at this position, although its name is captured."""


@dataclass(frozen=True, slots=True)
class NoDefinitions:
    """No tracked definitions, for binlogs with names in the table maps.

    TINYINT(1) is then read as TINYINT, and comments are missing.
    """

    def definition_at(self, name: tuple[str, str], file: str, pos: int, *, named: bool) -> TableDefinition | None:
        return None

    def is_skipped(self, name: tuple[str, str], file: str, pos: int) -> bool:
        return False


class MissingValues(Protocol):
    """The values of columns that row images lack although the server logs full images."""

    def completed(self, batch: ChangeBatch, lacking: Sequence[str], oddities: Counter[str]) -> ChangeBatch: ...


@dataclass(frozen=True, slots=True)
class BinlogOptions:
    """The options of decoding: captured tables, definitions, rules for odd values, row images.

    `images` has the image rules of single tables, and `policy` decides for the others; without a policy,
    `default_images` and the primary key decide. `partial_images` lets absent columns be null; `missing` has the values
    of absent columns that are generated. With `folds_names` the server keeps names of tables in lower case, however
    statements spell them.
    """

    choice: TableChoice = field(default_factory=EveryTable)
    definitions: Definitions = NoDefinitions()
    rules: ValueRules = field(default_factory=ValueRules)
    default_images: ImageRule = field(default_factory=ImageRule)
    images: Mapping[TableName, ImageRule] = field(default_factory=dict)
    policy: ImagePolicy | None = None
    partial_images: bool = False
    missing: MissingValues | None = None
    folds_names: bool = False

    def image_rule(self, definition: TableDefinition) -> ImageRule:
        """Return the image rule of a table; by default its primary key is watched."""
        known = self.images.get(definition.name)
        if known is not None:
            return known
        if self.policy is not None:
            return self.policy.rule(definition.database, definition.table, definition.primary_key)
        default = self.default_images
        return ImageRule(default.before_images, default.watch.union(definition.primary_key))
