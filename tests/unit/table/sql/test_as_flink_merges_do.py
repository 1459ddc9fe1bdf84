"""Rows of the same key, written by Flink SQL: merge engines and overwrites, with the results of Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.table.sql.steps import Refused, Step, Stream, check_case

pytestmark = pytest.mark.slow


def table(columns: str, **options: str) -> str:
    """Return the statement that creates `t` with the key `k` and options, whose keys have `_` in place of `.`."""
    given = ", ".join(f"'{key.replace('__', '-').replace('_', '.')}' = '{value}'" for key, value in options.items())
    return (
        f"CREATE TABLE t (k INT, {columns}, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1'{given and ', '}{given})"
    )


def aggregates(**functions: str) -> dict[str, str]:
    """Return the options of an aggregation with a function for each column."""
    return {"merge__engine": "aggregation"} | {
        f"fields_{name}_aggregate__function": function for name, function in functions.items()
    }


GROUPS = {
    "merge__engine": "partial-update",
    "fields_g_sequence__group": "a,b",
    "fields_h_sequence__group": "c",
}
PARTIAL: dict[str, tuple[Step, ...]] = {
    "partial update": (
        table("a INT, b STRING", merge__engine="partial-update"),
        "INSERT INTO t VALUES (1, 5, NULL), (1, NULL, 'x')",
        "INSERT INTO t VALUES (1, 6, CAST(NULL AS VARCHAR)), (2, NULL, NULL)",
        ("SELECT * FROM t WHERE a = 6 AND b = 'x'", [(1, 6, "x")]),
        ("SELECT b FROM t", [("x",), (None,)]),
        ("DELETE FROM t WHERE k = 1", Refused("partial-update.remove-record-on-delete")),
        (Stream("SELECT * FROM t"), Refused("Partial update streaming reading is not supported")),
    ),
    "sequence groups": (
        table("a INT, b INT, g INT, c INT, h INT", **GROUPS),
        "INSERT INTO t VALUES (1, 1, 1, 5, 1, 5)",
        "INSERT INTO t VALUES (1, 2, NULL, 6, 2, NULL)",  # the group h has no sequence: c stays
        ("SELECT * FROM t", [(1, 2, None, 6, 1, 5)]),
        "INSERT INTO t VALUES (1, 3, 3, 4, 3, 9)",  # an older g
        ("SELECT a, b, g, c, h FROM t", [(2, None, 6, 3, 9)]),
    ),
    "a sequence group with a function": (
        table("a INT, b INT, g INT, c INT, h INT", **GROUPS, fields_a_aggregate__function="sum"),
        "INSERT INTO t VALUES (1, 10, 1, 5, NULL, NULL)",
        "INSERT INTO t VALUES (1, 20, 2, 4, NULL, NULL)",
        ("SELECT a, b, g FROM t", [(30, 1, 5)]),
    ),
    "sequence groups that are wrong": (
        (table("a INT, g INT", merge__engine="partial-update", fields_x_sequence__group="a"), Refused("names 'x'")),
        (table("a INT, g INT", merge__engine="partial-update", fields_g_sequence__group="x"), Refused("names 'x'")),
        (table("a INT, b INT, g INT, c INT, h INT", **GROUPS | {"fields_h_sequence__group": "a"}), Refused("two")),
    ),
    "a record that is removed by a delete": (
        table("a STRING, b STRING", merge__engine="partial-update").replace(
            "'bucket'", "'partial-update.remove-record-on-delete' = 'true', 'bucket'"
        ),
        "INSERT INTO t VALUES (1, 'x', NULL)",
        "DELETE FROM t WHERE k = 1",
        ("SELECT * FROM t", []),
        "INSERT INTO t VALUES (1, NULL, 'y')",
        ("SELECT * FROM t", [(1, None, "y")]),
    ),
}
OTHERS: dict[str, tuple[Step, ...]] = {
    "first row": (
        table("v INT", merge__engine="first-row", changelog__producer="lookup"),
        "INSERT INTO t VALUES (1, 10), (1, 11), (2, 20)",
        "INSERT INTO t VALUES (2, 21), (3, 30)",
        ("SELECT * FROM t", [(1, 10), (2, 20), (3, 30)]),
        (Stream("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '3') */"), [("+I", 3, 30)]),
        ("CREATE TABLE u LIKE t WITH ('changelog-producer' = 'input')", Refused("cannot have changelog-producer")),
    ),
    "the kind of a row in a column": (
        table("v INT, op STRING", rowkind_field="op"),
        "INSERT INTO t VALUES (1, 10, '+I'), (2, 20, '+I')",
        "INSERT INTO t VALUES (1, 10, '-D')",
        ("SELECT * FROM t", [(2, 20, "+I")]),
        ("INSERT INTO t VALUES (1, 10, 'delete')", Refused("'delete' is not a row kind")),
    ),
    "deletes that are ignored": (
        table("v STRING, op STRING", ignore__delete="true", rowkind_field="op"),
        "INSERT INTO t VALUES (1, 'x', '+I')",
        "INSERT INTO t VALUES (1, 'x', '-D')",
        ("SELECT v FROM t", [("x",)]),
        # Paimon runs a DELETE that changes nothing.
        ("DELETE FROM t WHERE k = 1", Refused("the table ignores -D rows")),
    ),
    "sequence fields in both orders": (
        table("v STRING, s INT", sequence_field="s"),
        "INSERT INTO t VALUES (1, 'new', 5), (1, 'old', 4)",
        "INSERT INTO t VALUES (1, 'older', 3)",
        ("SELECT v FROM t", [("new",)]),
        "DROP TABLE t",
        table("v STRING, s INT", sequence_field="s").replace(
            "'bucket'", "'sequence.field.sort-order' = 'descending', 'bucket'"
        ),
        "INSERT INTO t VALUES (1, 'new', 5), (1, 'old', 4)",
        ("SELECT v FROM t", [("old",)]),
    ),
    "keys that move between partitions": (
        "CREATE TABLE t (p INT, k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) PARTITIONED BY (p) "
        "WITH ('dynamic-bucket.target-row-num' = '3')",
        "INSERT INTO t VALUES (1, 1, 1), (2, 1, 2), (1, 3, 3), (1, 4, 4), (1, 5, 5)",
        "INSERT INTO t VALUES (9, 4, 40)",
        ("SELECT * FROM t", [(2, 1, 2), (1, 3, 3), (9, 4, 40), (1, 5, 5)]),
        "UPDATE t SET v = 0 WHERE k = 5",
        "DELETE FROM t WHERE k = 1",
        ("SELECT k, v FROM t", [(3, 3), (4, 40), (5, 0)]),
    ),
    "overwritten partitions": (
        "CREATE TABLE t (id INT, p INT, q STRING, PRIMARY KEY (p, q, id) NOT ENFORCED) PARTITIONED BY (p, q)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a')",
        "INSERT OVERWRITE t VALUES (4, 1, 'b')",
        ("SELECT id FROM t", [(1,), (3,), (4,)]),
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT id, 'c' FROM t WHERE id = 4",
        ("SELECT * FROM t", [(3, 2, "a"), (4, 1, "c")]),
        "INSERT OVERWRITE t PARTITION (p = 2, q = 'a') SELECT id FROM t WHERE false",
        ("SELECT id FROM t", [(4,)]),
        "INSERT INTO t PARTITION (p = 7, q) SELECT 5, 'z'",
        "INSERT OVERWRITE t /*+ OPTIONS('dynamic-partition-overwrite' = 'false') */ VALUES (6, 6, 'y')",
        ("SELECT * FROM t", [(6, 6, "y")]),
        (Stream("INSERT OVERWRITE t SELECT * FROM t"), Refused("INSERT OVERWRITE needs a query that ends")),
    ),
    "another number of buckets": (
        table("v INT"),
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t SET ('bucket' = '3')",
        ("INSERT INTO t VALUES (2, 2)", Refused("the table has 1 buckets")),
        "INSERT OVERWRITE t SELECT * FROM t",
        "INSERT INTO t VALUES (2, 2)",
        ("SELECT * FROM t", [(1, 1), (2, 2)]),
    ),
}
FUNCTIONS: dict[str, tuple[Step, ...]] = {
    f"the function {name}": (
        table(columns, **aggregates(v=name), **options),
        *inserts,
        ("SELECT v FROM t", [(result,)]),
    )
    for name, columns, options, inserts, result in [
        ("sum", "v INT", {}, ["INSERT INTO t VALUES (1, 4), (1, NULL)", "INSERT INTO t VALUES (1, 5)"], 9),
        ("product", "v DOUBLE", {}, ["INSERT INTO t VALUES (1, 1.5)", "INSERT INTO t VALUES (1, 4)"], 6.0),
        ("max", "v DATE", {}, ["INSERT INTO t VALUES (1, NULL)", "INSERT INTO t VALUES (1, NULL)"], None),
        ("min", "v STRING", {}, ["INSERT INTO t VALUES (1, 'fig')", "INSERT INTO t VALUES (1, 'elm')"], "elm"),
        ("bool_or", "v BOOLEAN", {}, ["INSERT INTO t VALUES (1, false)", "INSERT INTO t VALUES (1, true)"], True),
        ("bool_and", "v BOOLEAN", {}, ["INSERT INTO t VALUES (1, true)", "INSERT INTO t VALUES (1, false)"], False),
        ("first_value", "v INT", {}, ["INSERT INTO t VALUES (1, NULL)", "INSERT INTO t VALUES (1, 4)"], None),
        ("first_non_null_value", "v INT", {}, ["INSERT INTO t VALUES (1, NULL)", "INSERT INTO t VALUES (1, 4)"], 4),
        ("last_value", "v INT", {}, ["INSERT INTO t VALUES (1, 4)", "INSERT INTO t VALUES (1, NULL)"], None),
        ("last_non_null_value", "v INT", {}, ["INSERT INTO t VALUES (1, 4)", "INSERT INTO t VALUES (1, NULL)"], 4),
        ("listagg", "v STRING", {}, ["INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'b')"], "a,b"),
        (
            "collect",
            "v ARRAY<STRING>",
            {"fields_v_distinct": "true"},
            ["INSERT INTO t VALUES (1, ['a', 'b'])", "INSERT INTO t VALUES (1, ['b'])"],
            ["a", "b"],
        ),
        (
            "merge_map",
            "v MAP<INT, STRING>",
            {},
            ["INSERT INTO t VALUES (1, MAP {1: 'a'})", "INSERT INTO t VALUES (1, MAP {1: 'b', 2: 'c'})"],
            [(1, "b"), (2, "c")],
        ),
    ]
} | {
    "functions that do not fit": (
        (table("v INT", **aggregates(v="average")), Refused("'average' is not an aggregate function")),
        (table("v STRING", **aggregates(v="sum")), Refused("type: STRING")),
        (table("v INT", **aggregates(w="sum")), Refused("names 'w'")),
        table("v INT", **aggregates(v="sum")),
        "INSERT INTO t VALUES (1, 1)",
        ("UPDATE t SET v = 1", Refused("UPDATE is not possible with the merge engine aggregation")),
        ("DELETE FROM t WHERE k = 1", Refused("aggregation.remove-record-on-delete")),
        (Stream("SELECT * FROM t"), Refused("Pre-aggregate streaming reading is not supported")),
    ),
}
CASES = PARTIAL | OTHERS | FUNCTIONS


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_key_are_merged_as_paimon_does(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, CASES[case])
