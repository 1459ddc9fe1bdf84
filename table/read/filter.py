"""Row filters, given as an Arrow expression or as SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.read.sql_pruning import pushed_down, with_lists
from penstock.table.values.buffers import one_batch
from penstock.table.values.names import alike_columns, no_column, refuse_alike
from penstock.table.values.optional import duckdb_module
from penstock.table.values.sql_text import with_double_quotes

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_BY_PLACE = re.compile(r"\bFieldPath\(")
_NO_MATCH = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")
# The threads that Arrow starts for fewer rows cost more than they save.
_FEW_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A row filter.

    Expressions are evaluated by Arrow. SQL text is evaluated by DuckDB, with names in backquotes or without; rows keep
    their Arrow types in either case.
    """

    given: pc.Expression | str
    table: str | None = None
    _connection: Any = field(init=False, repr=False, compare=False, default=None)
    _pruning: pc.Expression | None = field(init=False, repr=False, compare=False, default=None)

    @classmethod
    def of(cls, where: object, schema: pa.Schema, table: str) -> RowFilter:
        """Return the condition after trying it on an empty batch.

        ConfigError when it names an unknown column, or compares types that cannot be compared.
        """
        if not isinstance(where, pc.Expression | str):
            raise ConfigError(
                f"a condition is an Arrow expression or SQL text, not a {type(where).__name__}",
                table=table,
                hint="write pyarrow.compute.field('id') > 3, or 'id > 3'",
            )
        if isinstance(where, str):
            where = with_lists(with_double_quotes(where))
        condition = cls(where, table)
        condition._refuse_places()
        condition.kept(pa.RecordBatch.from_pylist([], schema))
        pruning = where
        if isinstance(where, str):
            pruning = pushed_down(where, schema)
        object.__setattr__(condition, "_pruning", pruning)
        return condition

    def __reduce__(self) -> tuple[object, ...]:
        return RowFilter, (self.given, self.table)  # DuckDB connections cannot be pickled

    @property
    def expression(self) -> pc.Expression | None:
        """Return the expression a scan can prune by: it is true for every row that matches the condition.

        None when there is no such expression.
        """
        return self._pruning

    def columns(self, names: Iterable[str]) -> set[str]:
        """Return the names among `names` that may occur in the condition."""
        text = str(self.given)
        if not isinstance(self.given, str):
            return {name for name in names if name in text}
        # In a quoted name each quote is doubled, so a name is also searched for in this form.
        folded = with_double_quotes(text).lower()
        return {name for name in names if name.lower() in folded or name.lower().replace('"', '""') in folded}

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that match."""
        if isinstance(self.given, str):
            return batch.filter(self.mask(batch))
        try:
            return _filtered(batch, self.given)
        except (pa.ArrowException, TypeError) as reason:
            raise self._refused(reason, batch.schema) from reason

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return true for the rows that match, and false for the rows for which the condition is false or null."""
        if isinstance(self.given, str):
            return self._evaluated(batch, with_double_quotes(self.given))
        import pyarrow.dataset as ds  # imports pandas, which costs as much as a small scan

        is_true = pc.coalesce(self.given, pc.scalar(value=False))
        try:
            return ds.InMemoryDataset(batch).to_table(columns={"is_true": is_true})["is_true"].combine_chunks()
        except (pa.ArrowException, TypeError) as reason:
            raise self._refused(reason, batch.schema) from reason

    def _evaluated(self, batch: pa.RecordBatch, text: str) -> pa.Array:
        duckdb = duckdb_module()
        if self._connection is None:
            connection = duckdb.connect(config={"threads": 1})
            connection.execute("SET TimeZone = 'UTC'")
            object.__setattr__(self, "_connection", connection)
        alike = alike_columns(batch.schema.names)
        if alike:
            # DuckDB would read the first of them for each; it needs one column.
            batch = batch.drop_columns(alike).append_column("", pa.nulls(batch.num_rows))
        try:
            self._connection.register("rows", pa.Table.from_batches([batch]))
            asked = self._connection.sql(f"SELECT coalesce(({text}), false) AS is_true FROM rows")
            is_true = asked.to_arrow_table()["is_true"].combine_chunks()
        except duckdb.Error as reason:
            if any(name.lower() in text.lower() for name in alike):
                refuse_alike(alike, self.table)
            raise ConfigError(
                f"the condition cannot be parsed: {reason}",
                condition=text,
                table=self.table,
                hint="write it as in SQL, such as  dt = 'mon' AND id > 3 ; texts are in single quotes",
            ) from reason
        if not pa.types.is_boolean(is_true.type):
            raise ConfigError(
                "the condition is not a boolean expression",
                condition=text,
                table=self.table,
                hint="compare columns with values, such as  dt = 'mon' AND id > 3",
            )
        return is_true

    @property
    def _written(self) -> str:
        return " ".join(str(self.given).split())

    def _refuse_places(self) -> None:
        if not isinstance(self.given, str) and _BY_PLACE.search(_TEXT.sub("", str(self.given))):
            raise ConfigError(
                "a condition must name columns, not their positions",
                condition=self._written,
                table=self.table,
                hint="write pyarrow.compute.field('id'), not field(0)",
            )

    def _refused(self, reason: Exception, schema: pa.Schema) -> ConfigError:
        unknown = _NO_MATCH.search(str(reason))
        if unknown and unknown[1] not in schema.names:
            return no_column([unknown[1]], schema.names, self.table, condition=self._written)
        # Hints for frequent mistakes, which are recognised by what Arrow says about them.
        text = str(reason).partition("\n")[0]
        hint = None
        if "Precision is not great enough" in text:
            hint = "compare decimals with decimal.Decimal, as Arrow casts no int to them, or write the condition in SQL"
        elif "timezone" in text:
            hint = "compare TIMESTAMP with naive datetimes, WITH LOCAL TIME ZONE with aware ones"
        elif isinstance(reason, pa.ArrowNotImplementedError):
            hint = "compare a column with a value of the same type, or cast it"
        return ConfigError(
            f"the condition cannot be evaluated on the rows: {text:.200}",
            hint=hint,
            condition=self._written,
            table=self.table,
        )


def _filtered(batch: pa.RecordBatch, where: pc.Expression) -> pa.RecordBatch:
    if batch.num_rows > _FEW_ROWS:
        return batch.filter(where)
    from pyarrow import acero  # as the method above does; it imports pandas

    rows = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))),
            acero.Declaration("filter", acero.FilterNodeOptions(where)),
        ]
    ).to_table(use_threads=False)
    return one_batch(rows) if rows.num_rows else batch.slice(0, 0)
