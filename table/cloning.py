"""A table again elsewhere: its schema, and the rows it has now."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.catalog import Catalog, split_name
from penstock.table.handle import Table

_PLACES = {"path"}  # of the old table alone


def clone_table(
    source: Table,
    catalog: Catalog,
    name: str,
    *,
    where: pc.Expression | str | None = None,
    options: Mapping[str, str] | None = None,
    into_existing: bool = False,
    rows: bool = True,
) -> Table:
    """Make `name` in `catalog` with the columns, keys and options of `source`, and its newest rows as one snapshot.

    A table that is there already is refused, or with `into_existing` overwritten when its columns are the same.
    History, tags and branches stay behind. Called again after a crash: pass `into_existing`. Memory is bounded by the
    write buffer.
    """
    definition = source.definition
    if catalog.table_exists(name):
        if not into_existing:
            raise ConfigError(f"table {name!r} exists already", warehouse=catalog.warehouse)
        target = catalog.table(name)
        if target.schema != source.schema:
            raise ConfigError(f"table {name!r} has other columns than {source.name}", warehouse=catalog.warehouse)
    else:
        catalog.create_database(split_name(name)[0], ignore_if_exists=True)
        kept = {key: value for key, value in definition.options.items() if key not in _PLACES}
        target = catalog.create_table(
            name,
            definition.fields,
            definition.primary_keys,
            definition.partition_keys,
            {**kept, **(options or {})},
            definition.comment,
        )
    if rows:
        _copy(source, target, where)
    return target


def _copy(source: Table, target: Table, where: pc.Expression | str | None) -> None:
    with target.overwrite(partition={}) as writer:
        for batch in source.scan(where=where).to_batches():
            writer.write(batch)
        writer.commit()
