"""`penstock sql`: a local look at the tables of a warehouse."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import parse_with_word
from penstock.pipelines.commands.output import answer, print_rows, wants_json
from penstock.pipelines.commands.target import READING, catalog_of, number, text
from penstock.pipelines.config.flags import Flag

_FLAGS = (
    *READING,
    Flag("database", "database of table names without a database", metavar="NAME"),
    Flag("limit", "maximum number of rows to print (default: 100; 0 for all, as with --json)", metavar="N"),
)
_DOES = (
    "Query the tables of a warehouse with SQL. To read an older state of a table, add one of these after its "
    "name: FOR VERSION AS OF 3 (a snapshot or a tag), FOR TAG 'monday', FOR TIMESTAMP AS OF '2026-01-31 "
    "12:00:00', or /*+ OPTIONS('scan.snapshot-id'='3') */. System tables have names such as orders$snapshots."
)
_IN_PYTHON = "in Python:  penstock.Catalog(PATH)"
_CHANGES = {
    "delete": "penstock delete --where ...",
    "update": "penstock merge-into",
    "merge": "penstock merge-into",
    "insert": "penstock merge-into, or table.writer() in Python",
    "truncate": "penstock delete, or penstock drop-partition",
    "drop": f"{_IN_PYTHON}.drop_table(NAME)",
    "alter": f"{_IN_PYTHON}.alter_table(NAME, [...])",
    "create": f"{_IN_PYTHON}.create_table(NAME, ...)",
}


def command(name: str, words: list[str]) -> int:
    sql, given = parse_with_word(name, _FLAGS, words, _DOES, "QUERY", "one SQL statement")
    if sql is None or not sql.strip():
        raise ConfigError("no query is given", hint='penstock sql "select * from db.t" --warehouse PATH')
    if (first := sql.split(maxsplit=1)[0].lower()) in _CHANGES:
        raise ConfigError(f"sql only reads tables: {first} is not supported", sql=sql, hint=_CHANGES[first])
    from penstock.table.sql.session import Session

    with Session(catalog_of(given), text(given, "database")) as session:
        rows = session.query(sql)
    if wants_json(given):
        # Not by dictionaries: a join may have two columns of one name.
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return answer(given, {"columns": rows.column_names, "rows": [list(row) for row in values]})
    limit = number(given, "limit")
    limit = 100 if limit is None else limit
    shown = rows.slice(0, limit) if limit else rows
    print_rows(shown.column_names, zip(*(column.to_pylist() for column in shown.columns), strict=True))
    if shown.num_rows < rows.num_rows:
        print(f"... {rows.num_rows - shown.num_rows} more rows; show all with --limit 0")
    return 0
