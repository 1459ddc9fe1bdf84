"""Random statements of all kinds, played against a model of tables in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

Row = dict[str, object]
Condition = tuple[str, Callable[[Row], bool]]


@dataclass(slots=True)
class ModelTable:
    """A table of the model: its columns with their types, its keys, and its rows."""

    columns: dict[str, str]
    keys: tuple[str, ...]
    partitioned: bool
    rows: list[Row] = field(default_factory=list)

    def key_of(self, row: Row) -> tuple[object, ...]:
        return tuple(row[name] for name in self.keys)

    def insert(self, rows: list[Row]) -> None:
        if not self.keys:
            self.rows += rows
            return
        by_key = {self.key_of(row): row for row in self.rows}
        by_key |= {self.key_of(row): row for row in rows}
        self.rows = list(by_key.values())

    @property
    def free(self) -> list[str]:
        return [name for name in self.columns if name not in {"k", "p"}]


class Game:
    """Plays statements on a warehouse and on the model, and compares both."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog)
        self.tables: dict[str, ModelTable] = {}
        self.names = 0
        self.log: list[str] = []
        self.run("CREATE DATABASE d; USE d")

    def run(self, script: str) -> list[Row]:
        self.log.append(script)
        return list(self.interpreter.run(script))[-1].to_pylist()  # type: ignore[no-any-return]  # rows as Arrow gives them

    def play(self, statements: int) -> None:
        moves = [
            *((self.insert,) * 5),
            *((self.update,) * 3),
            *((self.delete,) * 3),
            *((self.merge,) * 3),
            *((self.overwrite,) * 2),
            *((self.alter,) * 2),
            *(
                self.create,
                self.create_as,
                self.drop,
                self.rename,
                self.truncate,
                self.wrong,
                self.insert_from,
                self.compact,
            ),
        ]
        for number in range(statements):
            move = self.dice.choice(moves) if self.tables else self.create
            touched = move()
            for name in touched if number % 20 else self.tables:
                self.compare(name)
        for name in self.tables:
            check_invariants(self.catalog.table(f"d.{name}"))
        self.interpreter.__exit__()

    def compare(self, name: str) -> None:
        table = self.tables[name]
        found = self.run(f"SELECT * FROM {name}")
        recent = "\n".join(self.log[-12:])
        assert sorted(map(repr, found)) == sorted(map(repr, ordered(table))), recent
        where, holds = self.condition(table)
        [counted] = self.run(f"SELECT count(*) AS n FROM {name} WHERE {where}")
        assert counted["n"] == sum(1 for row in table.rows if holds(row)), recent

    # parts of statements

    def name(self) -> str:
        return self.dice.choice(list(self.tables))

    def new_name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def value(self, column: str, type_: str) -> object:
        if column == "k":
            return self.dice.randrange(12)
        if column == "p":
            return self.dice.choice("ab")
        if self.dice.random() < 0.2:
            return None
        return self.dice.randrange(-5, 20) if type_ != "STRING" else self.dice.choice(["x", "it's", "", "語"])

    def row(self, table: ModelTable) -> Row:
        return {column: self.value(column, type_) for column, type_ in table.columns.items()}

    def some_rows(self, table: ModelTable) -> list[Row]:
        return [self.row(table) for _ in range(self.dice.randrange(1, 6))]

    def condition(self, table: ModelTable) -> Condition:
        column = self.dice.choice(list(table.columns))
        value = self.value(column, table.columns[column])
        forms: list[Condition] = [
            (f"{column} IS NULL", lambda row: row[column] is None),
            (f"{column} IS NOT NULL", lambda row: row[column] is not None),
        ]
        if value is not None:
            forms += [
                (f"{column} = {text(value)}", lambda row: row[column] == value),
                (f"{column} > {text(value)}", lambda row: row[column] is not None and row[column] > value),  # type: ignore[operator]  # one type
                (f"NOT {column} = {text(value)}", lambda row: row[column] is not None and row[column] != value),
                (f"{column} IN ({text(value)}, NULL)", lambda row: row[column] == value),
            ]
        sql, holds = self.dice.choice(forms)
        if self.dice.random() < 0.3:
            other_sql, other = self.condition(table)
            if self.dice.random() < 0.5:
                return f"({sql} AND {other_sql})", lambda row: holds(row) and other(row)
            return f"({sql} OR {other_sql})", lambda row: holds(row) or other(row)
        return sql, holds

    # statements; each returns the tables that it changes

    def create(self) -> list[str]:
        if len(self.tables) > 5:
            return []
        name, keyed, partitioned = self.new_name(), self.dice.random() < 0.7, self.dice.random() < 0.5
        columns = {"k": "INT", "v": self.dice.choice(["INT", "BIGINT", "STRING"]), "w": "STRING"}
        if partitioned:
            columns["p"] = "STRING"
        keys = ("k", "p") if partitioned else ("k",)
        listed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        key = f", PRIMARY KEY ({', '.join(keys)}) NOT ENFORCED" if keyed else ""
        by = " PARTITIONED BY (p)" if partitioned else ""
        options = "'bucket' = '2'" if keyed and self.dice.random() < 0.7 else "'bucket' = '-1'"
        vectors = ", 'deletion-vectors.enabled' = 'true'" if self.dice.random() < 0.2 else ""
        clause = self.dice.choice(["WITH", "USING paimon TBLPROPERTIES"])
        parts = f"{by} {clause} ({options}{vectors})" if clause == "WITH" else f" {clause} ({options}{vectors})"
        parts = parts if clause == "WITH" else parts.replace("USING paimon", f"USING paimon{by}")
        self.run(f"CREATE TABLE {name} ({listed}{key}){parts}")
        self.tables[name] = ModelTable(columns, keys if keyed else (), partitioned)
        return [name]

    def create_as(self) -> list[str]:
        if len(self.tables) > 5:
            return []
        source, name = self.tables[self.name()], self.new_name()
        old = next(item for item, table in self.tables.items() if table is source)
        where, holds = self.condition(source)
        self.run(f"CREATE TABLE {name} AS SELECT * FROM {old} WHERE {where}")
        rows = [dict(row) for row in source.rows if holds(row)]
        self.tables[name] = ModelTable(dict(source.columns), (), False, rows)
        return [name]

    def drop(self) -> list[str]:
        if len(self.tables) > 3:
            name = self.name()
            self.run(f"DROP TABLE {name}")
            del self.tables[name]
        return []

    def rename(self) -> list[str]:
        name, new = self.name(), self.new_name()
        self.run(f"ALTER TABLE {name} RENAME TO {new}")
        self.tables[new] = self.tables.pop(name)
        return [new]

    def alter(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        match self.dice.randrange(3):
            case 0 if len(table.columns) < 8:
                column, type_ = f"c{self.dice.randrange(10**6)}", self.dice.choice(["INT", "STRING"])
                self.run(f"ALTER TABLE {name} ADD COLUMN {column} {type_}")
                table.columns[column] = type_
                for row in table.rows:
                    row[column] = None
            case 1 if len(table.free) > 1:
                column = self.dice.choice(table.free)
                self.run(f"ALTER TABLE {name} DROP ({column})")
                del table.columns[column]
                for row in table.rows:
                    del row[column]
            case 2 if table.free:
                column, new = self.dice.choice(table.free), f"r{self.dice.randrange(10**6)}"
                self.run(f"ALTER TABLE {name} RENAME {column} TO {new}")
                table.columns = {new if item == column else item: type_ for item, type_ in table.columns.items()}
                for row in table.rows:
                    row[new] = row.pop(column)
        return [name]

    def insert(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        rows = self.some_rows(table)
        columns = list(table.columns)
        if self.dice.random() < 0.3:
            columns = [column for column in columns if column in {"k", "p"} or self.dice.random() < 0.5]
            self.dice.shuffle(columns)
            rows = [{column: row[column] if column in columns else None for column in table.columns} for row in rows]
        listed = "" if columns == list(table.columns) else f" ({', '.join(columns)})"
        self.run(f"INSERT INTO {name}{listed} VALUES {values(rows, columns)}")
        table.insert(rows)
        return [name]

    def insert_from(self) -> list[str]:
        name, source = self.name(), self.name()
        target, table = self.tables[name], self.tables[source]
        columns = [
            item for item in target.columns if item in table.columns and target.columns[item] == table.columns[item]
        ]
        if not set(target.keys) | ({"p"} & target.columns.keys()) <= set(columns) or "k" not in columns:
            return []
        listed = ", ".join(columns)
        # One row for each key, so that the order of the rows does not matter.
        keys = ", ".join(target.keys)
        distinct = f"DISTINCT ON ({keys}) " if keys else ""
        order = f" ORDER BY {', '.join((*target.keys, *(f'{item} NULLS LAST' for item in columns)))}" if keys else ""
        self.run(f"INSERT INTO {name} ({listed}) SELECT {distinct}{listed} FROM {source}{order}")
        rows = [{item: row[item] if item in columns else None for item in target.columns} for row in table.rows]
        if keys:
            rows.sort(key=lambda row: [(row[item] is None, row[item]) for item in (*target.keys, *columns)])
            first: dict[object, Row] = {}
            for row in rows:
                first.setdefault(target.key_of(row), row)
            rows = list(first.values())
        target.insert(rows)
        return [name]

    def overwrite(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        rows = self.some_rows(table)
        columns = list(table.columns)
        if not table.partitioned:
            self.run(f"INSERT OVERWRITE {name} VALUES {values(rows, columns)}")
            table.rows = []
        elif self.dice.random() < 0.5:
            self.run(f"INSERT OVERWRITE {name} VALUES {values(rows, columns)}")
            replaced = {row["p"] for row in rows}
            table.rows = [row for row in table.rows if row["p"] not in replaced]
        else:
            rows = [{**row, "p": "a"} for row in rows]
            others = [column for column in columns if column != "p"]
            self.run(f"INSERT OVERWRITE {name} PARTITION (p = 'a') VALUES {values(rows, others)}")
            table.rows = [row for row in table.rows if row["p"] != "a"]
        table.insert(rows)
        return [name]

    def update(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        where, holds = self.condition(table)
        column = self.dice.choice(table.free)
        value = self.value(column, table.columns[column])
        statement = f"UPDATE {name} SET {column} = {text(value)} WHERE {where}"
        if not table.keys:
            self.refused(statement)
            return [name]
        [result] = self.run(statement)
        chosen = [row for row in table.rows if holds(row)]
        for row in chosen:
            row[column] = value
        assert result["updated"] == len(chosen)
        return [name]

    def delete(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        where, holds = self.condition(table)
        [result] = self.run(f"DELETE FROM {name} WHERE {where}")
        kept = [row for row in table.rows if not holds(row)]
        if table.keys:
            assert result["deleted"] == len(table.rows) - len(kept)
        table.rows = kept
        return [name]

    def truncate(self) -> list[str]:
        name = self.name()
        self.run(self.dice.choice([f"TRUNCATE TABLE {name}", f"DELETE FROM {name}"]))
        self.tables[name].rows = []
        return [name]

    def compact(self) -> list[str]:
        name = self.name()
        self.run(f"CALL sys.compact('d.{name}')")
        return [name]

    def merge(self) -> list[str]:
        name = self.name()
        table = self.tables[name]
        if not table.keys:
            return []
        source = {table.key_of(row): row for row in self.some_rows(table)}
        columns = list(table.columns)
        where, holds = self.condition(table)
        rows = f"(SELECT * FROM (VALUES {values(list(source.values()), columns)}) AS v({', '.join(columns)})) AS s"
        on = " AND ".join(f"t.{key} = s.{key}" for key in table.keys)
        others = self.dice.random() < 0.5
        by_source = f" WHEN NOT MATCHED BY SOURCE AND {where} THEN DELETE" if others else ""
        column = self.dice.choice(table.free)
        self.run(
            f"MERGE INTO {name} AS t USING {rows} ON {on} WHEN MATCHED AND s.{column} IS NULL THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {column} = s.{column} WHEN NOT MATCHED THEN INSERT *{by_source}"
        )
        left = []
        for row in table.rows:
            match = source.pop(table.key_of(row), None)
            if match is None:
                if not (others and holds(row)):
                    left.append(row)
            elif match[column] is not None:
                left.append({**row, column: match[column]})
        table.rows = left + list(source.values())
        return [name]

    def wrong(self) -> list[str]:
        name = self.name()
        self.refused(
            self.dice.choice(
                [
                    f"INSERT INTO {name} VALUES (1)",
                    f"INSERT INTO {name} (k, k) VALUES (1, 1)",
                    f"INSERT INTO {name} SELECT * FROM nothing",
                    f"INSERT INTO {name} (k) SELECT 'x'",
                    f"UPDATE {name} SET nothing = 1",
                    f"DELETE FROM {name} WHERE nothing = 1",
                    f"ALTER TABLE {name} DROP COLUMN nothing",
                    f"ALTER TABLE {name} ADD COLUMN k INT",
                    f"CREATE TABLE {name} (a INT)",
                    f"CREATE TABLE other AS SELECT CAST('x' AS INT) AS a FROM {name} UNION ALL SELECT CAST('x' AS INT)",
                    f"DROP VIEW {name}",
                    f"MERGE INTO {name} AS t USING nothing AS s ON t.k = s.k WHEN MATCHED THEN DELETE",
                    f"GRANT SELECT ON {name} TO x",
                ]
            )
        )
        assert sorted(self.catalog.tables("d")) == sorted(self.tables)
        return [name]

    def refused(self, statement: str) -> None:
        with pytest.raises(PenstockError) as caught:
            self.run(statement)
        assert "line" in caught.value.facts, statement


def text(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def values(rows: list[Row], columns: list[str]) -> str:
    return ", ".join(f"({', '.join(text(row[column]) for column in columns)})" for row in rows)


def ordered(table: ModelTable) -> list[Row]:
    return [{column: row[column] for column in table.columns} for row in table.rows]


@pytest.mark.parametrize(
    ("seed", "statements"), [(0, 60), *(pytest.param(seed, 120, marks=pytest.mark.slow) for seed in range(2))]
)
def test_random_statements_match_the_model(tmp_path: Path, seed: int, statements: int) -> None:
    Game(tmp_path, seed).play(statements)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_random_statements_match_the_model(tmp_path: Path, seed: int) -> None:
    Game(tmp_path, seed).play(500)
