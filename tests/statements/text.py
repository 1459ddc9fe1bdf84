"""The steps of a script as SQL of DuckDB's and of Spark's dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.statements.model import Step
from tests.statements.model_table import Cell

WRONG = {
    "few values": "INSERT INTO {t} VALUES (1)",
    "column twice": "INSERT INTO {t} (k, k) VALUES (1, 1)",
    "no source": "INSERT INTO {t} SELECT * FROM nothing",
    "not a number": "INSERT INTO {t} (k) SELECT CAST('x' AS INT)",
    "set nothing": "UPDATE {t} SET nothing = 1",
    "where nothing": "DELETE FROM {t} WHERE nothing = 1",
    "drop nothing": "ALTER TABLE {t} DROP COLUMN nothing",
    "rename nothing": "ALTER TABLE {t} RENAME COLUMN nothing TO x",
    "column exists": "ALTER TABLE {t} ADD COLUMN k INT",
    "table exists": "CREATE TABLE {t} (a INT)",
    "drop key": "ALTER TABLE {t} DROP COLUMN k",
    "null key": "INSERT INTO {t} (k) VALUES (NULL)",
    "set key": "UPDATE {t} SET k = 1",
    "merge nothing": "MERGE INTO {t} AS t USING nothing AS s ON t.k = s.k WHEN MATCHED THEN DELETE",
    "failing query": "CREATE TABLE other AS SELECT CAST('x' AS INT) AS a FROM {t} UNION ALL SELECT CAST('x' AS INT)",
    "no option": "ALTER TABLE {t} SET TBLPROPERTIES ('bukcet' = '1')",
    "no tag": "SELECT * FROM {t} VERSION AS OF 'no tag'",
    "grant": "GRANT SELECT ON {t} TO x",
}
STRUCT, MAP = "STRUCT<a: INT, b: STRING>", "MAP<STRING, INT>"
NEEDS_KEY = {"drop key", "null key", "set key"}


def named(name: str) -> str:
    """Return the name of a column, perhaps behind the alias of its table, in backquotes if it needs them."""
    alias, dot, column = name.rpartition(".")
    plain = column.isascii() and column.isidentifier() and not column.startswith("select")
    return alias + dot + (column if plain else "`" + column.replace("`", "``") + "`")


def listed_names(names: Sequence[str]) -> str:
    return ", ".join(map(named, names))


class Text:
    """Writes steps as statements of one dialect."""

    def __init__(self, dialect: str) -> None:
        self.spark = dialect == "spark"

    def of(self, step: Step, snapshot: int | None = None) -> list[str]:
        """Return the statements of a step, of which the last one has the result."""
        made = getattr(self, f"do_{step['op']}")
        text = made(step, snapshot) if step["op"] in {"travel", "rollback"} else made(step)
        return [text] if isinstance(text, str) else list(text)

    def cell(self, value: Cell, type_: str) -> str:
        if value is None:
            return "NULL"
        if type_ in {"INT", "BIGINT"}:
            return str(value)
        if type_ == "BOOLEAN":
            return "TRUE" if value else "FALSE"
        if type_ in {STRUCT, MAP}:
            return self.nested(value, type_)
        quoted = "'" + str(value).replace("'", "''") + "'"
        if type_ == "ARRAY<INT>":
            items = ", ".join("NULL" if element is None else str(element) for element in value)
            if self.spark:
                return f"CAST(array({items}) AS ARRAY<INT>)"
            return f"CAST([{items}] AS INT[])"
        if type_ == "STRING":
            return quoted
        # DuckDB's type without a time zone is TIMESTAMP, Spark's is TIMESTAMP_NTZ.
        name = "TIMESTAMP" if type_ == "TIMESTAMP_NTZ" and not self.spark else type_
        return f"CAST({quoted} AS {name})"

    def nested(self, value: Mapping[str, Cell], type_: str) -> str:
        if type_ == STRUCT:
            number, text = self.cell(value["a"], "INT"), self.cell(value["b"], "STRING")
            if self.spark:
                return f"CAST(named_struct('a', {number}, 'b', {text}) AS {STRUCT})"
            return f"CAST({{'a': {number}, 'b': {text}}} AS STRUCT(a INT, b VARCHAR))"
        pairs = [(self.cell(key, "STRING"), self.cell(element, "INT")) for key, element in value.items()]
        if self.spark:
            return f"CAST(map({', '.join(f'{key}, {pair}' for key, pair in pairs)}) AS {MAP})"
        return f"CAST(MAP {{{', '.join(f'{key}: {pair}' for key, pair in pairs)}}} AS MAP(VARCHAR, INT))"

    def rows(self, rows: Sequence[Sequence[Cell]], types: Sequence[str]) -> str:
        lists = (", ".join(self.cell(cell, type_) for cell, type_ in zip(row, types, strict=True)) for row in rows)
        return "VALUES " + ", ".join(f"({cells})" for cells in lists)

    def condition(self, given: Sequence[Any]) -> str:
        match given:
            case ["null", column]:
                return f"{named(column)} IS NULL"
            case ["not null", column]:
                return f"{named(column)} IS NOT NULL"
            case ["not", inner]:
                return f"NOT ({self.condition(inner)})"
            case ["and" | "or" as word, left, right]:
                return f"({self.condition(left)} {word.upper()} {self.condition(right)})"
            case ["in", column, [*values], type_]:
                return f"{named(column)} IN ({', '.join(self.cell(element, type_) for element in values)})"
        word, column, value, type_ = given
        return f"{named(column)} {word} {self.cell(value, type_)}"

    def assignments(self, given: Sequence[Any]) -> str:
        return ", ".join(f"{named(name)} = {self.assigned(value)}" for name, value in given)

    def assigned(self, value: Sequence[Any]) -> str:
        match value:
            case ["value", cell, type_]:
                return self.cell(cell, type_)
            case ["plus", column, number]:
                return f"{named(column)} + {number}"
            case ["default", *_]:
                return "DEFAULT"
        return named(str(value[1]))

    # tables

    def do_create(self, step: Step) -> str:
        columns = [
            f"{named(name)} {type_}" + (f" DEFAULT {self.cell(default, type_)}" if default is not None else "")
            for name, type_, default in step["columns"]
        ]
        if step["keys"]:
            columns.append(f"PRIMARY KEY ({', '.join(step['keys'])}) NOT ENFORCED")
        by = f" PARTITIONED BY ({', '.join(step['parts'])})" if step["parts"] else ""
        options = ", ".join(f"'{key}' = '{value}'" for key, value in step["options"].items())
        if self.spark or step["clause"] == "using":
            return f"CREATE TABLE {step['table']} ({', '.join(columns)}) USING paimon{by} TBLPROPERTIES ({options})"
        return f"CREATE TABLE {step['table']} ({', '.join(columns)}){by} WITH ({options})"

    def do_create_as(self, step: Step) -> str:
        return f"CREATE TABLE {step['table']} AS SELECT * FROM {step['source']} WHERE {self.condition(step['where'])}"

    def do_replace_as(self, step: Step) -> str:
        return f"CREATE OR REPLACE{self.do_create_as(step).removeprefix('CREATE')}"

    def do_like(self, step: Step) -> str:
        return f"CREATE TABLE {step['table']} LIKE {step['source']}"

    def do_drop(self, step: Step) -> str:
        return f"DROP TABLE {step['table']}"

    def do_rename(self, step: Step) -> str:
        return f"ALTER TABLE {step['table']} RENAME TO {step['to']}"

    # columns and options

    def do_add(self, step: Step) -> str:
        place = " FIRST" if step.get("first") else f" AFTER {named(step['after'])}" if step.get("after") else ""
        return f"ALTER TABLE {step['table']} ADD COLUMN {named(step['column'])} {step['type']}{place}"

    def do_drop_column(self, step: Step) -> str:
        return f"ALTER TABLE {step['table']} DROP COLUMN {named(step['column'])}"

    def do_rename_column(self, step: Step) -> str:
        return f"ALTER TABLE {step['table']} RENAME COLUMN {named(step['column'])} TO {named(step['to'])}"

    def do_widen(self, step: Step) -> str:
        return f"ALTER TABLE {step['table']} ALTER COLUMN {named(step['column'])} TYPE BIGINT"

    def do_default(self, step: Step) -> str:
        change = (
            "DROP DEFAULT" if step["value"] is None else f"SET DEFAULT {self.cell(step['value'], step['types'][0])}"
        )
        return f"ALTER TABLE {step['table']} ALTER COLUMN {named(step['column'])} {change}"

    def do_option(self, step: Step) -> str:
        if step["value"] is None:
            return f"ALTER TABLE {step['table']} UNSET TBLPROPERTIES IF EXISTS ('{step['key']}')"
        return f"ALTER TABLE {step['table']} SET TBLPROPERTIES ('{step['key']}' = '{step['value']}')"

    # rows

    def do_insert(self, step: Step) -> str:
        listed = f" ({listed_names(step['columns'])})" if step["listed"] else ""
        return f"INSERT INTO {step['table']}{listed} {self.rows(step['rows'], step['types'])}"

    def do_insert_from(self, step: Step) -> str:
        names, where = listed_names(step["columns"]), self.condition(step["where"])
        query = f"SELECT {names} FROM {step['source']} WHERE {where}"
        if step["by_name"]:
            return f"INSERT INTO {step['table']} BY NAME {query}"
        return f"INSERT INTO {step['table']} ({names}) {query}"

    def do_overwrite(self, step: Step) -> list[str]:
        mode = "dynamic" if step["mode"] == "dynamic" else "static"
        partition, rows, types = "", step["rows"], step["types"]
        if step["mode"] == "partition":
            partition = f" PARTITION (p = {self.cell(step['partition'], 'STRING')})"
            place = step["columns"].index("p")
            rows = [[*row[:place], *row[place + 1 :]] for row in rows]
            types = [*types[:place], *types[place + 1 :]]
        text = f"INSERT OVERWRITE {step['table']}{partition} {self.rows(rows, types)}"
        return [f"SET spark.sql.sources.partitionOverwriteMode = {mode}", text]

    def do_truncate(self, step: Step) -> str:
        return f"TRUNCATE TABLE {step['table']}"

    def do_drop_partition(self, step: Step) -> str:
        return f"ALTER TABLE {step['table']} DROP PARTITION (p = '{step['partition']}')"

    def do_update(self, step: Step) -> str:
        return f"UPDATE {step['table']} SET {self.assignments(step['set'])} WHERE {self.condition(step['where'])}"

    def do_delete(self, step: Step) -> str:
        return f"DELETE FROM {step['table']} WHERE {self.condition(step['where'])}"

    def do_delete_in(self, step: Step) -> str:
        return f"DELETE FROM {step['table']} WHERE k IN (SELECT k FROM {step['source']})"

    def do_merge(self, step: Step) -> str:
        names = listed_names(step["columns"])
        source = f"(SELECT * FROM ({self.rows(step['rows'], step['types'])}) AS v({names}))"
        if self.spark:
            # An inline table has the types of its values, and a column of nulls has none.
            casts = ", ".join(
                f"CAST({n} AS {t}) AS {n}" for n, t in zip(map(named, step["columns"]), step["types"], strict=True)
            )
            source = f"(SELECT {casts} FROM {self.rows(step['rows'], step['types'])} AS v({names}))"
        on = " AND ".join(f"t.{named(name)} = s.{named(name)}" for name in step["on"])
        clauses = " ".join(self.clause(clause) for clause in step["clauses"])
        return f"MERGE INTO {step['table']} AS t USING {source} AS s ON {on} {clauses}"

    def clause(self, given: Mapping[str, Any]) -> str:
        when = {"matched": "MATCHED", "not matched": "NOT MATCHED", "by source": "NOT MATCHED BY SOURCE"}[given["when"]]
        also = f" AND {self.condition(given['and'])}" if given["and"] else ""
        match given["then"]:
            case "delete":
                then = "DELETE"
            case "update":
                then = "UPDATE SET " + ("*" if given["set"] is None else self.assignments(given["set"]))
            case _:
                names = given["columns"]
                listed = names and f"({listed_names(names)}) VALUES ({', '.join(f's.{named(name)}' for name in names)})"
                then = f"INSERT {listed or '*'}"
        return f"WHEN {when}{also} THEN {then}"

    # states

    def call(self, procedure: str, *arguments: str) -> str:
        return f"CALL {'lake.' if self.spark else ''}sys.{procedure}({', '.join(arguments)})"

    def do_compact(self, step: Step) -> str:
        return self.call("compact", f"'d.{step['table']}'")

    def do_tag(self, step: Step) -> str:
        return self.call("create_tag", f"'d.{step['table']}'", f"'{step['name']}'")

    def do_travel(self, step: Step, snapshot: int | None) -> str:
        return f"SELECT * FROM {step['table']} VERSION AS OF {snapshot}"

    def do_travel_tag(self, step: Step) -> str:
        return f"SELECT * FROM {step['table']} VERSION AS OF '{step['name']}'"

    def do_rollback(self, step: Step, snapshot: int | None) -> str:
        return self.call("rollback", f"'d.{step['table']}'", f"'{snapshot}'")

    def do_branch(self, step: Step) -> str:
        return self.call("create_branch", f"'d.{step['table']}'", f"'{step['name']}'")

    def do_branch_insert(self, step: Step) -> str:
        return f"INSERT INTO `{step['table']}$branch_{step['name']}` {self.rows(step['rows'], step['types'])}"

    def do_branch_read(self, step: Step) -> str:
        return f"SELECT * FROM `{step['table']}$branch_{step['name']}`"

    def do_select(self, step: Step) -> str:
        return f"SELECT * FROM {step['table']} WHERE {self.condition(step['where'])}"

    def do_wrong(self, step: Step) -> str:
        return WRONG[step["kind"]].format(t=step["table"])
