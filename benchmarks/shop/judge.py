"""The rows expected after all changes: the last change of each key, computed by DuckDB and not by us."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks.shop.columns import ShopTable

DUCK_TYPES = {"tinyint": "TINYINT", "int": "INTEGER", "bigint": "BIGINT", "datetime": "TIMESTAMP", "date": "DATE"}


class Wrong(Exception):
    """A table that does not hold what it should."""


def duck_type(mysql_type: str) -> str:
    word = mysql_type.partition("(")[0]
    return mysql_type if word == "decimal" else DUCK_TYPES.get(word, "VARCHAR")


def expected_rows(folder: Path, table: ShopTable) -> str:
    """The rows as a query."""
    columns = ", ".join(
        f"cast(json_extract_string(row, '$.{name}') as {duck_type(kind)}) as {name}"
        for name, kind in table.mysql_types.items()
    )
    return f"""
        select {columns} from (
            select data[1] as row, type, row_number() over (
                partition by json_extract_string(data[1], '$.id') order by id desc) as age
            from read_json('{folder}/part-*.jsonl', format = 'newline_delimited', maximum_object_size = 100000,
                columns = {{'data': 'JSON[]', 'id': 'BIGINT', 'type': 'VARCHAR', 'table': 'VARCHAR'}})
            where "table" = '{table.name}'
        ) where age = 1 and type <> 'DELETE'"""


def check(folder: Path, table: ShopTable, found: pa.Table) -> int:
    """How many rows there are, or Wrong: rows are compared whole, both ways."""
    columns = ", ".join(f"cast({name} as {duck_type(kind)}) as {name}" for name, kind in table.mysql_types.items())
    with duckdb.connect() as judge:
        judge.register("found", found)
        judge.execute(f"create table expected as {expected_rows(folder, table)}")
        judge.execute(f"create table stored as select {columns} from found")
        missing, foreign, rows = (
            judge.execute(query).fetchall()[0][0]
            for query in (
                "select count(*) from (from expected except all from stored)",
                "select count(*) from (from stored except all from expected)",
                "select count(*) from expected",
            )
        )
    if missing or foreign:
        raise Wrong(f"{table.name}: of {rows} rows {missing} are missing and {foreign} are there that should not be")
    return int(rows)
