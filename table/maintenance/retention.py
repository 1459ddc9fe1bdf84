"""How many snapshots and changelogs a table keeps, and for how long, by its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.options.commits import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_TIME_RETAINED,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_TIME_RETAINED,
)
from penstock.table.options.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """A retention rule: at least `least` are kept, at most `most`; between them those younger than `millis`."""

    least: int
    most: int | None
    millis: int

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ConfigError(
                "at least one snapshot must be kept, because it contains the rows of the table",
                hint="raise retain_min and retain_max to 1 or more",
            )
        if self.most is not None and self.most < self.least:
            raise ConfigError(
                f"the most snapshots or changelogs to keep, {self.most}, are fewer than the fewest, {self.least}",
                hint="raise retain_max (snapshot.num-retained.max, changelog.num-retained.max), or lower retain_min",
            )

    def beyond(self, other: RetentionRule) -> bool:
        """Return whether this rule keeps anything longer than the other one."""
        # Without a limit, more are kept than with any limit.
        mine, theirs = self.most or 1 << 62, other.most or 1 << 62
        return mine > theirs or self.least > other.least or self.millis > other.millis


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a table's snapshots and changelogs. `at_once` bounds how many expire in a round."""

    snapshots: RetentionRule
    changelogs: RetentionRule
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
        if at_once is not None and at_once < 1:
            raise ConfigError(
                f"max_deletes is a number from 1 upwards, not {at_once}: with it nothing would ever expire",
                hint="leave it out; the option snapshot.expire.limit then bounds a round",
            )
        options = TableOptions(values)
        most = options[SNAPSHOT_NUM_RETAINED_MAX] if most is None else most
        if least is None:
            least = options[SNAPSHOT_NUM_RETAINED_MIN]
            least = least if most is None else min(least, most)
        snapshots = RetentionRule(least, most, options[SNAPSHOT_TIME_RETAINED] if millis is None else millis)
        changelogs = RetentionRule(
            options.get(CHANGELOG_NUM_RETAINED_MIN, snapshots.least),
            options.get(CHANGELOG_NUM_RETAINED_MAX, snapshots.most),
            options.get(CHANGELOG_TIME_RETAINED, snapshots.millis),
        )
        return cls(
            snapshots,
            changelogs,
            options[SNAPSHOT_EXPIRE_LIMIT] if at_once is None else at_once,
            options[SNAPSHOT_CLEAN_EMPTY_DIRECTORIES],
        )

    @property
    def decoupled(self) -> bool:
        """Return whether changelogs outlive their snapshots."""
        return self.changelogs.beyond(self.snapshots)
