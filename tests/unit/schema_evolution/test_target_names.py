"""Names of target tables, and which source tables are captured."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.schema_evolution.target_names import TargetNames

AFFIXED = TargetNames(
    prefix="p_",
    suffix="_s",
    database_prefix={"shop": "sp_"},
    database_suffix={"crm": "_cs"},
    mapping={"orders": "Deals"},
)


@pytest.mark.parametrize(
    ("database", "table", "target"),
    [
        ("x", "users", "p_users_s"),
        ("shop", "users", "sp_users_s"),  # the general suffix stays
        ("SHOP", "users", "sp_users_s"),
        ("crm", "users", "p_users_cs"),
        ("shop", "ORDERS", "Deals"),  # a mapping beats all affixes, whatever the case of the source's name
        (None, "users", "p_users_s"),
    ],
)
def test_the_first_rule_that_applies_names_the_table(database: str | None, table: str, target: str) -> None:
    assert AFFIXED.target(database, table) == target


def test_both_affixes_of_a_database_are_applied() -> None:
    naming = TargetNames(prefix="p_", database_prefix={"shop": "a_"}, database_suffix={"shop": "_z"})
    assert naming.target("shop", "t") == "a_t_z"


def test_a_catalog_that_folds_case_lowers_mapped_names() -> None:
    naming = TargetNames(prefix="P_", mapping={"orders": "Deals"}, case_sensitive=False)
    assert (naming.target("d", "orders"), naming.target("d", "T1")) == ("deals", "p_t1")


def test_shards_that_are_not_merged_have_their_database_in_their_names_and_mappings() -> None:
    naming = TargetNames(merge_shards=False, mapping={"a_t": "first"})
    assert (naming.target("a", "t"), naming.target("b", "t")) == ("first", "b_t")


@pytest.mark.parametrize(
    ("database", "table", "taken"),
    [
        ("shop", "t1", True),
        ("shop", "t2", False),  # excluding wins
        ("shop", "t11", False),  # the whole name must match
        ("old_shop", "t1", False),
        ("other", "t1", False),
        (None, None, True),
    ],
)
def test_filters_match_complete_names_and_excluding_wins(database: str | None, table: str | None, taken: bool) -> None:
    naming = TargetNames(
        including="t1|t2|t3", excluding="t2", including_databases=".*shop", excluding_databases="old_.*|other"
    )
    assert naming.includes(database, table) is taken


def test_a_mapping_does_not_widen_the_filter() -> None:
    assert not TargetNames(mapping={"users": "people"}, including="orders").includes("shop", "users")


def test_an_invalid_filter_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        TargetNames(including="(")
