"""Renaming of columns in the options that name them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.table.options.merge_engines import FIELDS_DEFAULT_AGGREGATE_FUNCTION

# Options whose value is a list of columns.
_LISTS = (
    "bucket-key",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
    "sequence.field",
    "upsert-key",
)


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options with the column renamed in keys and values."""

    def renamed(names: str) -> str:
        return ",".join(new if name.strip() == old else name for name in names.split(","))

    found = {}
    for key, value in options.items():
        if key.startswith("fields.") and key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
            _, columns, *rest = key.split(".")
            key = ".".join(["fields", renamed(columns), *rest])
            value = renamed(value) if rest == ["sequence-group"] else value
        elif key in _LISTS or (key.startswith("file-index.") and key.endswith(".columns")):
            value = renamed(value)
        elif key.startswith("file-index.") and f".{old}." in key:
            key = key.replace(f".{old}.", f".{new}.", 1)
        found[key] = value
    return found
