"""The options and keys that a pipeline sets, compared with those of target tables that exist already."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import SetOption, apply_changes
from penstock.table.schema.option_changes import is_immutable
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_usable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OptionsToSet:
    """Differences between the options of an existing table and of the pipeline: options to set, and options to keep."""

    changes: tuple[SetOption, ...]
    kept: Mapping[str, tuple[str | None, str]]

    def after(self, store: TableStore) -> TableSchema:
        """Return the schema that the table will have. ConfigError if it cannot have one of the options."""
        current = store.schema()
        if not self.changes:
            return current
        has_snapshots = store.snapshots.latest_id() is not None
        changed = apply_changes(current, self.changes, has_snapshots, current.time_millis)
        check_usable(changed, current)
        return changed


def options_to_set(store: TableStore, wanted: Mapping[str, str], kept: frozenset[str] = frozenset()) -> OptionsToSet:
    """Return the options to set.

    Options that determine how existing rows are stored or read, and options in `kept`, are not changed.
    """
    has = store.schema().options
    differ = {option: value for option, value in wanted.items() if has.get(option) != value}
    keeps = {option for option in differ if option == "bucket" or option in kept or is_immutable(option)}
    changes = tuple(SetOption(option, value) for option, value in differ.items() if option not in keeps)
    return OptionsToSet(changes, {option: (has.get(option), differ[option]) for option in differ if option in keeps})


def set_options(
    warehouse: CatalogSettings, table: str, wanted: Mapping[str, str], kept: frozenset[str] = frozenset()
) -> TableSchema:
    """Set the options that differ, and return the newest schema. Those that are kept are logged."""
    store = warehouse.store(table)
    found = options_to_set(store, wanted, kept)
    for option, (has, value) in found.kept.items():
        log.warning("event=option_kept table=%s option=%s value=%s wanted=%s", table, option, has, value)
    return store.evolve(found.changes, check_usable) if found.changes else store.schema()


def check_keys(kind: str, given: Sequence[str], own: Sequence[str]) -> None:
    """Raise ConfigError if the keys that a pipeline sets are not the keys of the existing table."""
    if given and set(given) != set(own):
        raise ConfigError(
            f"the table exists with other {kind} keys than the pipeline sets",
            set_keys=", ".join(given),
            table_keys=", ".join(own),
            paimon_message=f"Specified {kind} keys [{', '.join(given)}] are not equal to the existed table {kind} keys"
            f" [{', '.join(own)}]. You should remove the --{kind}-keys argument or re-create the table if the {kind}"
            " keys are wrong.",
            hint=f"remove --{kind}-keys, or create the table again if its {kind} keys are wrong",
        )
