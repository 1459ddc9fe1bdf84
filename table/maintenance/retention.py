"""The retention of snapshots and changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.schema.options import Options

HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Keep:
    """A retention rule: at least `least` are kept, at most `most`; between them those younger than `millis`."""

    least: int
    most: int | None
    millis: int

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError("at least one snapshot must be kept: it is the table")
        if self.most is not None and self.most < self.least:
            raise ConfigError(f"at most {self.most} cannot be kept where at least {self.least} must be")

    def beyond(self, other: Keep) -> bool:
        """Return whether this rule keeps anything longer than the other one."""
        mine, theirs = self.most or 1 << 62, other.most or 1 << 62
        return mine > theirs or self.least > other.least or self.millis > other.millis


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a table's snapshots and changelogs. `at_once` bounds how many expire in a round."""

    snapshots: Keep
    changelogs: Keep
    at_once: int
    clean_folders: bool

    @classmethod
    def of(
        cls,
        values: Mapping[str, str],
        *,
        most: int | None = None,
        least: int | None = None,
        millis: int | None = None,
        at_once: int | None = None,
    ) -> Retention:
        """Build from the options of a table, overridden by the arguments.

        Changelogs expire with their snapshots unless an option keeps them longer.
        """
        options = Options(values)
        most = options.integer("snapshot.num-retained.max", None) if most is None else most
        if least is None:
            least = options.integer("snapshot.num-retained.min", 10)
            least = least if most is None else min(least, most)
        snapshots = Keep(least, most, options.duration("snapshot.time-retained", HOUR) if millis is None else millis)
        changelogs = Keep(
            options.integer("changelog.num-retained.min", snapshots.least),
            options.integer("changelog.num-retained.max", snapshots.most),
            options.duration("changelog.time-retained", snapshots.millis),
        )
        return cls(
            snapshots,
            changelogs,
            options.integer("snapshot.expire.limit", 50) if at_once is None else at_once,
            options.boolean("snapshot.clean-empty-directories", default=False),
        )

    @property
    def decoupled(self) -> bool:
        """Return whether changelogs outlive their snapshots."""
        return self.changelogs.beyond(self.snapshots)
