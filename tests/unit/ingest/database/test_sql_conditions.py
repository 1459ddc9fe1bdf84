"""Conditions as SQL of the servers, where these evaluate them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from penstock.formats.demand import Comparison, Demand, Junction, NullTest, RowCondition
from penstock.ingest.database.sql_conditions import described, where
from penstock.ingest.mysql.definition import parse_type
from penstock.ingest.mysql.snapshot.conditions import MySqlConditions
from penstock.ingest.postgres.relation import PgType
from penstock.ingest.postgres.snapshot.conditions import PgConditions

MYSQL = {
    name: parse_type(text)
    for name, text in {
        "id": "int", "price": "decimal(10,2)", "ratio": "double", "name": "varchar(9)", "kind": "enum('a')",
        "flag": "tinyint(1)", "day": "date", "at": "datetime(3)", "stamp": "timestamp", "clock": "time", "doc": "json",
        "year_": "year",
    }.items()
}  # fmt: skip
POSTGRES = {
    name: PgType(text)
    for name, text in {
        "id": "int4", "any": "numeric", "ratio": "float4", "name": "text", "kind": "enum", "note": "citext",
        "flag": "bool", "day": "date", "at": "timestamp", "stamp": "timestamptz", "code": "uuid",
    }.items()
} | {"price": PgType("numeric", 10, 2), "tags": PgType("_text", element=PgType("text"))}  # fmt: skip
NOON = datetime(2024, 2, 29, 12)


@pytest.mark.parametrize(
    ("condition", "mysql", "postgres"),
    [
        (Comparison("id", ">", 5), "`id` > 5", '"id" > 5'),
        (Comparison("price", "<", Decimal("19.99")), "`price` < 19.99", '"price" < 19.99'),
        (Comparison("ratio", "<", 0.5), "`ratio` * 1e0 < 0.5e0", "\"ratio\"::float8 < '0.5'::float8"),
        (Comparison("name", "=", "o'b"), "`name` = _utf8mb4 X'6F2762'", "\"name\" = E'o''b'"),
        (
            Comparison("name", "<>", "a\\"),
            "CAST(CONVERT(`name` USING utf8mb4) AS BINARY) <> X'615C'",
            '"name"::text COLLATE "C" <> E\'a\\\\\'',
        ),
        (Comparison("kind", "=", "a"), "`kind` = _utf8mb4 X'61'", '"kind"::text COLLATE "C" = E\'a\''),
        (Comparison("flag", "=", True), "`flag` <> 0", '"flag" = true'),
        (Comparison("day", ">", date(2024, 2, 29)), "`day` > DATE'2024-02-29'", "\"day\" > '2024-02-29'::date"),
        (
            Comparison("at", ">", NOON),
            "`at` > TIMESTAMP'2024-02-29 12:00:00.000000'",
            "\"at\" > '2024-02-29 12:00:00.000000'::timestamp",
        ),
        # In MySQL an instant without a zone: local time differs from it by less than a day.
        (Comparison("stamp", ">", NOON), "`stamp` >= TIMESTAMP'2024-02-28 12:00:00.000000'", None),
        (
            Comparison("stamp", ">", NOON.replace(tzinfo=UTC)),
            "`stamp` >= TIMESTAMP'2024-02-28 12:00:00.000000'",
            "\"stamp\" > '2024-02-29 12:00:00.000000+00'::timestamptz",
        ),
        (Comparison("clock", "=", "10:00:00"), None, None),
        (Comparison("code", "=", "x"), None, None),
        (Comparison("note", "=", "x"), None, None),
        (Comparison("name", "<", "x"), "CAST(CONVERT(`name` USING utf8mb4) AS BINARY) < X'78'", None),
        (NullTest("id"), "`id` IS NULL", '"id" IS NULL'),
        (NullTest("day", negated=True), "`day` IS NOT NULL", '"day" IS NOT NULL'),
        (NullTest("doc"), None, None),
        (NullTest("any"), None, None),
        (NullTest("tags"), None, None),
        (Junction("or", (Comparison("id", "=", 1), NullTest("doc"))), None, None),
        (
            Junction("and", (Comparison("id", "=", 1), NullTest("doc"), NullTest("tags"))),
            "(`id` = 1)",
            '("id" = 1)',
        ),
    ],
)
def test_the_sql_of_a_condition(condition: RowCondition, mysql: str | None, postgres: str | None) -> None:
    assert where(condition, MySqlConditions(MYSQL, "Asia/Tokyo")) == mysql
    assert where(condition, PgConditions(POSTGRES)) == postgres


def test_values_that_become_null_when_they_are_decoded_are_not_left_out() -> None:
    assert "LAST_DAY(`day`) IS NULL" in str(where(NullTest("day"), MySqlConditions(MYSQL, "UTC")))
    assert where(NullTest("price"), PgConditions(POSTGRES)) == '("price" IS NULL OR "price" = \'NaN\')'
    assert "'9998-12-31'" in str(where(NullTest("at"), PgConditions(POSTGRES)))


def test_what_is_selected_is_described() -> None:
    assert described(Demand(), 3, None) == ()
    lines = described(Demand(frozenset({"id", "a"})), 21, "`a` > 5")
    assert lines == ("selects 2 of 21 columns: a, id", "selects rows where `a` > 5")
