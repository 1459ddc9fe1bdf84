"""The tables whose rows SQL can update, delete and merge."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.merge.engines.registry import ENGINES, merge_engine, merge_spec
from penstock.table.merge.spec import MergeEngine
from penstock.table.operations.assign_postponed import warn_of_postponed_rows
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.sql.dml.inserts import own_name


def _can_update(engine: MergeEngine) -> bool:
    """Return whether a new row replaces the old one, with all its values or with those that are not null."""
    return engine.newest_wins or engine.null_means_unchanged


def check_updatable(table: Table, verb: str, assigned: Sequence[str]) -> None:
    """Raise ConfigError unless rows of the table can be updated: the rules of Paimon."""
    check_newest_rows(table, verb)
    if not table.primary_keys:
        return
    engine = merge_engine(table.definition.typed)
    if not _can_update(engine):
        possible = " and ".join(name for name, other in ENGINES.items() if _can_update(other))
        raise ConfigError(
            f"{verb} is not possible with the merge engine {engine.name}",
            table=table.name,
            hint=f"it is possible with {possible}; INSERT INTO merges a row with the existing one",
        )
    if merge_spec(table.definition).rowkind_field:
        raise ConfigError(
            f"{verb} is not possible: the table reads the kind of a row from one of its columns",
            table=table.name,
            hint="INSERT INTO the table rows with the kind that they should have",
        )
    keys = [name for name in assigned if own_name(table, name) in table.primary_keys]
    if keys:
        raise ConfigError(
            f"{keys[0]!r} is a part of the key and cannot be changed",
            table=table.name,
            hint="DELETE the row, and INSERT it with the new key",
        )


def check_distinct_names(target: str, source: str | None, table: Table, hint: str) -> None:
    """Raise ConfigError if the target and the source of a merge have the same name in its conditions."""
    if source is not None and source.lower() == target.lower():
        raise ConfigError(
            f"the target and the source of the merge have the same name {target!r}",
            table=table.name,
            hint=hint,
        )


def check_newest_rows(table: Table, verb: str) -> None:
    """Raise ConfigError if options of the table make reads return other rows than its newest ones.

    A change of such rows would bring old rows back, or copy rows of another branch. Rows that wait for their bucket are
    not returned either, and stay as they are: that is logged.
    """
    # The scan as an ordinary read would make it, with the options that the table sets for all reads.
    scan, options = table.scan(), table.definition.typed
    if scan.travel.travels or scan.travel.created_after is not None or scan.between is not None:
        keys = sorted(key for key in table.options if key.startswith(("scan.", "incremental-")))
        raise ConfigError(
            f"{verb} changes the newest rows, but options of the table make reads return others",
            table=table.name,
            options=", ".join(keys),
            hint="ALTER TABLE t RESET ('key'), and set the option where it is needed: t /*+ OPTIONS(...) */",
        )
    if options[SCAN_FALLBACK_BRANCH]:
        raise ConfigError(
            f"{verb} is not possible while the table reads partitions of a fallback branch",
            table=table.name,
            hint=f"change the branch: t$branch_{options[SCAN_FALLBACK_BRANCH]}; or RESET scan.fallback-branch first",
        )
    warn_of_postponed_rows(table.store, verb)
