"""Which rows a condition holds for, whether it is an Arrow expression or SQL text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.errors import ConfigError
from penstock.table.values.optional import duckdb_module


@dataclass(frozen=True, slots=True)
class Condition:
    """Text is read by DuckDB, names backquoted or not; rows keep the types they have in Arrow all the same."""

    given: pc.Expression | str
    _connection: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.given, str):
            connection = duckdb_module().connect(config={"threads": 1})
            connection.execute("SET TimeZone = 'UTC'")
            object.__setattr__(self, "_connection", connection)

    @property
    def expression(self) -> pc.Expression | None:
        """What a scan can prune by; None for text."""
        return None if isinstance(self.given, str) else self.given

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """True for the rows it holds for, false where it does not or cannot say."""
        if self._connection is None:
            table = ds.InMemoryDataset(batch).to_table(
                columns={"held": pc.coalesce(self.given, pc.scalar(value=False))}
            )
        else:
            table = self._asked(batch)
        return table["held"].combine_chunks()

    def _asked(self, batch: pa.RecordBatch) -> pa.Table:
        duckdb = duckdb_module()
        text = str(self.given).replace("`", '"')
        try:
            self._connection.register("rows", pa.Table.from_batches([batch]))
            return self._connection.sql(f"SELECT coalesce(({text}), false) AS held FROM rows").to_arrow_table()
        except duckdb.Error as reason:
            raise ConfigError(f"the condition is not understood: {reason}", condition=text) from reason
