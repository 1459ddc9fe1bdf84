"""Rules for tables and columns that the source does not have: refused by plan, check and run alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.formats.change import SourceField, SourceSchema
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.job import build
from penstock.pipelines.job.unmet_names import unmet_names
from penstock.pipelines.job.unmet_rules import KnownTables, NoSuchTable, check_rules, unmet_rules
from tests.here import run
from tests.shop import Shop, insert

SCHEMAS = [
    SourceSchema("mysql", "shop", name, tuple(SourceField(column, "varchar(20)") for column in columns), ("id",))
    for name, columns in (("users", ("id", "email", "iban")), ("orders", ("id", "customer")))
]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def errors(shop: Shop, **sections: Any) -> list[ConfigError]:
    spec = shop.spec(**sections)
    return unmet_rules(spec, build.mapping_of(spec, shop.warehouse), KnownTables(SCHEMAS))


def transform(table: str, **rules: Any) -> dict[str, Any]:
    return {"transform": [{"source-table": table, **rules}]}


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (transform("shop.users", mask={"emial": "sha256"}), "mask on 'emial', which is not a column of shop.users"),
        (transform("shop.users", mask={"EMAIL": "sha256"}), "mask on 'EMAIL', which is not a column of shop.users"),
        (
            transform("shop.users", projection="id, email AS mail", mask={"email": "sha256"}),
            "mask on 'email', which is not a column of shop.users",
        ),
        (transform("shop.usres", mask={"email": "sha256"}), "the transform of shop.usres matches no captured table"),
        (transform("shop.users", **{"partition-keys": ["dt"]}), "partition key 'dt', which is not a column"),
        (transform("shop.users", **{"primary-keys": ["nocol"]}), "primary key 'nocol', which is not a column"),
        (transform("shop.users", projection="id, nocol"), "an expression uses 'nocol'"),
        (
            {"route": [{"source-table": "shop.nope", "sink-table": "ods.x"}]},
            "the route of shop.nope matches no captured table",
        ),
        (
            {
                "route": [
                    {"source-table": "shop.*", "sink-table": "ods.x"},
                    {"source-table": "shop.users", "sink-table": "ods.y"},
                ]
            },
            "an earlier route matches all its tables",
        ),
        ({"sink": {"partition-keys": ["pid"]}}, "partition key 'pid', which is not a column of any captured table"),
        ({"sink": {"primary-keys": ["nocol"]}}, "primary key 'nocol', which is not a column of any captured table"),
        ({"sink": {"computed-columns": ["y=year(made)"]}}, "computed column 'y' is computed from 'made'"),
        ({"sink": {"multiple-table-partition-keys": {"user": ["id"]}}}, "partition keys are set for user"),
        ({"sink": {"multiple-table-partition-keys": {"users": ["dt"]}}}, "partition key 'dt', which is not a column"),
        ({"sink": {"per-table": {"ods.user": {"bucket": "1"}}}}, "options are given for ods.user"),
    ],
)
def test_a_rule_without_a_match_is_reported(shop: Shop, sections: dict[str, Any], message: str) -> None:
    (error,) = errors(shop, **sections)
    assert message in error.message
    assert error.hint


@pytest.mark.parametrize(
    "sections",
    [
        transform("shop.*", mask={"email": "sha256"}),  # one of the tables has it
        transform("shop.users", projection="id, email AS mail", mask={"mail": "sha256"}),
        transform("shop.users", **{"partition-keys": ["y"]}) | {"sink": {"computed-columns": ["y=year(email)"]}},
        {"sink": {"partition-keys": ["customer"], "primary-keys": ["id", "customer"]}},
        {"sink": {"per-table": {"ods.users": {"bucket": "1"}}}},
    ],
)
def test_a_rule_that_matches_one_table_is_accepted(shop: Shop, sections: dict[str, Any]) -> None:
    assert errors(shop, **sections) == []


def test_a_fault_of_a_transform_that_other_rules_meet_too_is_reported_once(shop: Shop) -> None:
    lookup = {"table": "ods.nope", "on": {"id": "id"}, "columns": ["name"]}
    rule = {"source-table": "shop.users", "condition": "id is not null"}
    (error,) = errors(shop, **transform("shop.users", lookup=[lookup]), expect=[rule])
    assert "the table of a lookup does not exist" in error.message


def test_a_rule_that_matched_earlier_tables_is_accepted(shop: Shop) -> None:
    spec = shop.spec(**transform("shop.gone", mask={"email": "sha256"}))
    mapping = build.mapping_of(spec, shop.warehouse)
    with pytest.raises(NoSuchTable):
        check_rules(spec, mapping, KnownTables(SCHEMAS))
    check_rules(spec, mapping, KnownTables(SCHEMAS, [("shop", "gone")]))


def test_a_misspelt_mask_is_refused_by_plan_check_and_run(shop: Shop) -> None:
    shop.put("1.json", insert("users", {"id": 1, "email": "ann@x.de"}))
    spec = shop.spec(**transform("shop.users", mask={"emial": "sha256"}))
    with pytest.raises(ConfigError, match=r"did you mean email") as error:
        tables_planned(spec, 100)
    assert error.value.exit_code == 2
    assert any("mask on 'emial'" in item.message for item in checked_spec(spec) if item.level == "error")
    with pytest.raises(ConfigError, match="mask on 'emial'"):
        run(spec)
    assert shop.warehouse.tables("ods") == []


def test_a_selection_without_a_table_is_reported_by_plan_and_check(shop: Shop) -> None:
    def said(including: str) -> tuple[str, list[str]]:
        spec = shop.spec(selection={"including-tables": including})
        looked, _ = tables_planned(spec, 100)
        return looked, [item.message for item in checked_spec(spec) if item.level == "warning"]

    assert said("ordrs") == (
        "files: the source is empty so far",
        ["the source is empty so far"],
    )
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    assert said("ordrs") == (
        "files: looked at the first 2 messages; not captured: shop.orders, shop.users",
        ["no table of the first 2 messages is captured: shop.orders, shop.users"],
    )
    assert said("orders") == ("files: looked at the first 2 messages; not captured: shop.users", [])
    assert said(".*") == ("files: looked at the first 2 messages", [])


def test_a_pattern_that_accepts_no_file_is_reported_with_the_names_that_there_are(shop: Shop) -> None:
    """`the source is empty so far` was all that a check said of a folder with files of other names."""
    source = {"path": str(shop.inbox), "value.format": "canal-json", "pattern": "*.jsn"}
    spec = shop.spec(source=source)

    def warned() -> list[str]:
        return [item.message for item in checked_spec(spec) if item.level == "warning"]

    assert warned() == ["the source is empty so far"]
    shop.put(".1.json", insert("orders", {"id": 1}))  # it is being written
    assert warned() == ["the source is empty so far"]
    for number in range(1, 6):
        shop.put(f"{number}.json", insert("orders", {"id": 1}))
    found, _ = warned()
    assert found.startswith(f"5 files in {shop.inbox}, such as ")
    assert found.endswith(", but none is named '*.jsn'")
    shop.put("6.jsn", insert("orders", {"id": 1}))
    assert warned() == []
    assert "the first message can be read of shop.orders" in [item.message for item in checked_spec(spec)]
    assert tables_planned(spec, 100)[0] == "files: looked at the first message"


@pytest.mark.parametrize(
    ("naming", "said"),
    [
        ({"table-mapping": {"ordrs": "o"}}, "table-mapping is for the table ordrs, which is not captured"),
        ({"table-mapping": {"users": "u"}}, "table-mapping is for the table users, which is not captured"),
        ({"table-prefix-db": {"zz": "p_"}}, "table-prefix-db is for the database zz, which is not captured"),
        ({"table-suffix-db": {"zz": "_s"}}, "table-suffix-db is for the database zz, which is not captured"),
        (
            {"table-mapping": {"orders": "o"}, "merge-shards": False},
            "table-mapping is for the table orders, which is not captured",
        ),
        ({"table-mapping": {"shop_orders": "o"}, "merge-shards": False}, None),
        ({"table-mapping": {"Orders": "o"}}, None),
        ({"table-prefix-db": {"SHOP": "p_"}, "table-suffix-db": {"shop": "_s"}}, None),
        (
            {"table-mapping": {"Orders": "o"}, "table-prefix-db": {"SHOP": "p_"}},
            "table-prefix-db is for the database SHOP, and the target of each of its tables is named by a"
            " table-mapping, a route or sink.table",
        ),
    ],
)
def test_a_name_for_no_table_is_reported_by_plan_and_check(shop: Shop, naming: Any, said: str | None) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    spec = shop.spec(sink={"naming": naming}, selection={"including-tables": "orders"})
    looked, _ = tables_planned(spec, 100)
    found = [item.message for item in checked_spec(spec) if item.level == "warning"]
    assert found == [said] * (said is not None)
    assert ("warning: " in looked) == (said is not None)
    assert said is None or f"; warning: {said} (" in looked


@pytest.mark.parametrize("sink", [{}, {"table": "orders"}], ids=["route", "table"])
def test_a_name_for_a_table_that_another_rule_names_is_reported(shop: Shop, sink: dict[str, str]) -> None:
    naming = {"table-mapping": {"orders": "o"}, "table-suffix-db": {"shop": "_s"}}
    routes = [] if sink else [{"source-table": "shop.*", "sink-table": "ods.{table}"}]
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    spec = shop.spec(sink={"naming": naming} | sink, route=routes)
    found = [item.message for item in checked_spec(spec) if item.level == "warning"]
    assert found == [
        "table-mapping is for the table orders, whose target is named by a route or sink.table",
        "table-suffix-db is for the database shop, and the target of each of its tables is named by a table-mapping,"
        " a route or sink.table",
    ]


def test_a_name_for_an_earlier_table_is_not_reported(shop: Shop) -> None:
    spec = shop.spec(sink={"naming": {"table-mapping": {"gone": "g"}, "table-prefix-db": {"old": "p_"}}})
    mapping = build.mapping_of(spec, shop.warehouse)
    assert len(list(unmet_names(spec, mapping, SCHEMAS))) == 2
    assert list(unmet_names(spec, mapping, SCHEMAS, [("old", "gone")])) == []


@pytest.mark.parametrize(
    ("errors", "idle"),
    [
        ({"bad-record": "skip", "dead-letter": {"max-per-batch": "5"}}, ["dead-letter"]),
        ({"bad-record": "skip", "dead-letter": {"table": "ods.bad"}}, ["dead-letter"]),
        ({"dead-letter": {"max-share": "1%"}}, ["dead-letter"]),
        ({"bad-record": "dead-letter", "skip": {"max-share": "1%"}, "dead-letter": {"table": "ods.bad"}}, ["skip"]),
        # Flags set both sections, because --on-bad-record says which of them applies.
        ({"bad-record": "skip", "skip": {"max-share": "1%"}, "dead-letter": {"max-share": "1%"}}, []),
        ({"bad-record": "skip"}, []),
        ({}, []),
    ],
)
def test_limits_of_another_policy_for_bad_records_are_reported(shop: Shop, errors: Any, idle: list[str]) -> None:
    shop.put("1.json", insert("users", {"id": 1}))
    found = [item.message for item in checked_spec(shop.spec(errors=errors)) if item.level == "warning"]
    policy = errors.get("bad-record", "fail")
    assert found == [f"errors: {{{name}: ...}} has no effect with bad-record: {policy}" for name in idle]


def test_plan_shows_masked_columns(shop: Shop) -> None:
    shop.put("1.json", insert("users", {"id": 1, "email": "ann@x.de", "iban": "DE12"}))
    masks = {"email": "sha256", "iban": "keep-last(2)"}
    _, (table,) = tables_planned(shop.spec(**transform("shop.users", mask=masks)), 100)
    assert {column.name: column.reason for column in table.columns if "masked" in column.reason} == {
        "email": "masked by sha256",
        "iban": "masked by keep-last(2)",
    }


def test_a_column_that_shows_a_masked_one_is_reported_by_plan_and_check(shop: Shop) -> None:
    shop.put("1.json", insert("users", {"id": 1, "email": "ann@x.de"}))
    projection = "*, email as contact, lower(email) as mail, id + 1 as next"
    spec = shop.spec(**transform("shop.users", projection=projection, mask={"email": "sha256", "mail": "md5"}))
    _, (table,) = tables_planned(spec, 100)
    reasons = {column.name: column.reason for column in table.columns}
    assert reasons["contact"] == "computed from email without the mask"
    assert (reasons["email"], reasons["mail"]) == ("masked by sha256", "masked by md5")
    warned = [item.message for item in checked_spec(spec) if item.level == "warning"]
    assert warned == ["contact of shop.users is computed from email without the mask"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "four"}, "four"),
        ({"bucket": "0"}, "0"),
        ({"changelog-producer": "inputs"}, "inputs"),
    ],
)
def test_check_refuses_options_invalid_for_all_tables(shop: Shop, options: dict[str, str], message: str) -> None:
    shop.put("1.json", insert("users", {"id": 1}))
    errors = [item for item in checked_spec(shop.spec(sink={"table-options": options})) if item.level == "error"]
    assert any(message in error.message for error in errors)


@pytest.mark.parametrize(
    "sections",
    [
        transform("shop.users", filter="mail is null"),
        transform("shop.users", projection="id, upper(mail) AS m"),
        {"expect": [{"source-table": "shop.users", "condition": "mail is null"}]},
    ],
)
def test_a_column_of_a_table_without_types_is_checked_too(shop: Shop, sections: dict[str, Any]) -> None:
    spec = shop.spec(**sections)
    schemas = [
        replace(schema, dialect="text", fields=tuple(replace(column, type=None) for column in schema.fields))
        for schema in SCHEMAS
    ]
    (error,) = unmet_rules(spec, build.mapping_of(spec, shop.warehouse), KnownTables(schemas))
    assert "'mail', which is not a column of shop.users" in error.message


@pytest.mark.parametrize(
    ("sections", "named", "warns"),
    [
        (transform("shop.users", filter="mail is null"), "the transform of shop.users uses 'mail'", True),
        (transform("shop.users", projection="id, upper(mail) AS m"), "the transform of shop.users uses 'mail'", True),
        ({"expect": [{"source-table": "shop.users", "condition": "mail is null"}]}, "uses 'mail'", True),
        ({"sink": {"partition-keys": ["day"]}}, "partition key 'day'", True),
        ({"sink": {"primary-keys": ["id", "no"]}}, "primary key 'no'", True),
        ({"sink": {"computed-columns": ["y=year(made)"]}}, "computed column y of shop.users uses 'made'", True),
        # The table cannot be created without it, and a start refuses it.
        ({"sink": {"table": "users", "primary-keys": ["id", "no"]}}, "no", False),
    ],
)
def test_a_column_that_first_messages_lack_is_a_warning_unless_a_start_refuses_it(
    shop: Shop, sections: dict[str, Any], named: str, warns: bool
) -> None:
    row = {"database": "shop", "table": "users", "type": "insert", "ts": 1, "data": {"id": 1, "email": "ann@x.de"}}
    shop.put("1.json", json.dumps(row | {"primary_key_columns": ["id"]}))
    spec = shop.spec(source={"value.format": "maxwell-json"}, **sections)
    found = [(item.level, item.message) for item in checked_spec(spec)]
    assert any(named in message for _, message in found), found
    assert all(level != "error" for level, _ in found) == warns
    if warns:
        tables_planned(spec, 100)
        run(spec)
    else:
        with pytest.raises(PenstockError):
            run(spec)
