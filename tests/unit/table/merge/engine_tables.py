"""Tables of every merge engine, and random rows for them: for the tests against the model and against Java."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from tests.unit.table.merge.engine_model import Row

INTS = {"k": "INT NOT NULL", "a": "INT", "b": "BIGINT", "s": "STRING", "g": "INT", "h": "INT"}
NESTED = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [{"id": 20, "name": "x", "type": "INT"}, {"id": 21, "name": "y", "type": "STRING"}],
    },
}
AGGREGATED = {
    "k": "INT NOT NULL",
    "total": "BIGINT",
    "price": "DECIMAL(10, 2)",
    "wide": "DECIMAL(38, 3)",
    "size": "DOUBLE",
    "small": "FLOAT",
    "top": "INT",
    "low": "STRING",
    "every": "BOOLEAN",
    "some": "BOOLEAN",
    "words": "STRING",
    "first": "INT",
    "found": "INT",
    "last": "STRING",
    "known": "STRING",
    "all": {"type": "ARRAY", "element": "INT"},
    "set": {"type": "ARRAY", "element": "STRING"},
    "map": {"type": "MAP", "key": "STRING", "value": "INT"},
    "rows": NESTED,
    "keyed": NESTED,
    "factor": "INT",
}
FUNCTIONS = {
    "total": "sum", "price": "sum", "wide": "sum", "size": "sum", "small": "sum",
    "top": "max", "low": "min", "every": "bool_and",
    "some": "bool_or", "words": "listagg", "first": "first_value", "found": "first_non_null_value",
    "last": "last_value", "known": "last_non_null_value", "all": "collect", "set": "collect", "map": "merge_map",
    "rows": "nested_update", "keyed": "nested_update", "factor": "product",
}  # fmt: skip
RETRACTABLE = {
    n: f
    for n, f in FUNCTIONS.items()
    if f in {"sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update"}
}
# Functions whose result is not null after a retraction. The product of integers is left out: it may become zero, and a
# factor of zero cannot be retracted.
NEVER_NULL = {n: f for n, f in RETRACTABLE.items() if not f.startswith("last_") and f != "product"}
IGNORED = {f"fields.{name}.ignore_retract": "true" for name in FUNCTIONS}
NESTED_UP_TO_3 = {"fields.rows.aggregate-function": "nested_update", "fields.rows.count-limit": "3"}
PARTIAL = {"merge-engine": "partial-update"}
GROUPS = {**PARTIAL, "fields.g.sequence-group": "a,b", "fields.h.sequence-group": "s"}


def aggregated(functions: dict[str, str], **more: str) -> tuple[dict[str, Any], dict[str, str]]:
    options = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    options |= {"fields.set.distinct": "true", "fields.keyed.nested-key": "x", "merge-engine": "aggregation"}
    columns = {name: type_ for name, type_ in AGGREGATED.items() if name == "k" or name in functions}
    return columns, {**options, **{name.replace("_", "-"): value for name, value in more.items()}}


def group_aggregates(functions: dict[str, str], **options: str) -> tuple[dict[str, Any], dict[str, str]]:
    columns = {name: type_ for name, type_ in AGGREGATED.items() if name == "k" or name in functions}
    given = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    given |= {"fields.set.distinct": "true", "fields.keyed.nested-key": "x", "merge-engine": "partial-update"}
    given["fields.g.sequence-group"] = ",".join(name for name in columns if name != "k")
    return {**columns, "g": "INT"}, {**given, **{k.replace("_", "-"): v for k, v in options.items()}}


def required(table: tuple[dict[str, Any], dict[str, str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the table with all columns NOT NULL but those of nested types."""
    columns, options = table
    plain = {name for name, type_ in columns.items() if isinstance(type_, str) and name != "k"}
    return {name: f"{type_} NOT NULL" if name in plain else type_ for name, type_ in columns.items()}, options


# name: columns, options, kinds that may come
TABLES: dict[str, tuple[dict[str, Any], dict[str, str], list[int]]] = {
    "deduplicate": (INTS, {}, [0, 1, 2, 3]),
    "one sequence field": (INTS, {"sequence.field": "a"}, [0, 2, 3]),
    "two sequence fields": (INTS, {"sequence.field": "a,s"}, [0, 2, 3]),
    # Java keeps comparators by columns and forgets their order: no other table may have this sequence field.
    "descending sequence": (INTS, {"sequence.field": "b", "sequence.field.sort-order": "descending"}, [0, 3]),
    "partial update": (INTS, PARTIAL, [0, 2]),
    "partial update with not null": ({**INTS, "n": "INT NOT NULL"}, PARTIAL, [0, 2]),
    "partial update by sequence": (INTS, {**PARTIAL, "sequence.field": "g"}, [0, 2]),
    "partial update removes": (
        {**INTS, "n": "INT NOT NULL"},
        {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
        [0, 0, 1, 2, 3],
    ),
    "sequence groups": (INTS, GROUPS, [0, 0, 1, 2, 3]),
    "group of two": (INTS, {**PARTIAL, "fields.g,h.sequence-group": "a,b"}, [0, 0, 3]),
    "groups remove": (
        {**INTS, "n": "INT NOT NULL"},
        {**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
        [0, 0, 1, 3],
    ),
    "group of two, one not null, removes": (
        {**INTS, "g": "INT NOT NULL"},
        {**PARTIAL, "fields.g,h.sequence-group": "a,b", "partial-update.remove-record-on-sequence-group": "g"},
        [0, 0, 1, 3],
    ),
    "both groups remove": (INTS, {**GROUPS, "partial-update.remove-record-on-sequence-group": "g,h"}, [0, 0, 1, 3]),
    "aggregates in a group": (*group_aggregates(FUNCTIONS), [0, 2]),
    "aggregates in a group take back": (*group_aggregates(RETRACTABLE), [0, 0, 1, 3]),
    "aggregates in a group that removes": (
        *group_aggregates(RETRACTABLE, **{"partial-update.remove-record-on-sequence-group": "g"}),
        [0, 0, 1, 3],
    ),
    "aggregates in a group with not null": (*required(group_aggregates(NEVER_NULL)), [0, 0, 1, 3]),
    "aggregates with not null in a group that removes": (
        *required(group_aggregates(NEVER_NULL, **{"partial-update.remove-record-on-sequence-group": "g"})),
        [0, 0, 1, 3],
    ),
    "aggregates in a group leave what is taken back": (*group_aggregates(FUNCTIONS, **IGNORED), [0, 0, 1, 3]),
    "aggregates with not null in a group leave what is taken back": (
        *required(group_aggregates(FUNCTIONS, **IGNORED)),
        [0, 0, 1, 3],
    ),
    "aggregates in a group that removes leave what is taken back": (
        *group_aggregates(FUNCTIONS, **IGNORED, **{"partial-update.remove-record-on-sequence-group": "g"}),
        [0, 0, 1, 3],
    ),
    "aggregates with not null in a group that removes leave what is taken back": (
        *required(group_aggregates(FUNCTIONS, **IGNORED, **{"partial-update.remove-record-on-sequence-group": "g"})),
        [0, 0, 1, 3],
    ),
    "aggregation": (*aggregated(FUNCTIONS), [0, 2]),
    "aggregation takes back": (*aggregated(RETRACTABLE), [0, 0, 1, 3]),
    "aggregation leaves what is taken back": (
        *aggregated(FUNCTIONS, **IGNORED),
        [0, 0, 1, 3],
    ),
    "aggregation removes": (*aggregated(FUNCTIONS, **{"aggregation.remove-record-on-delete": "true"}), [0, 0, 2, 3]),
    "nested update up to a count": (
        {"k": "INT NOT NULL", "rows": NESTED},
        {"merge-engine": "aggregation", **NESTED_UP_TO_3},
        [0, 0, 3],
    ),
    "first row": (INTS, {"merge-engine": "first-row"}, [0, 2]),
}  # fmt: skip

# Kinds that are dropped before rows are numbered never reach a merge.
IGNORING: dict[str, tuple[dict[str, Any], dict[str, str], list[int]]] = {
    "deduplicate ignores deletes": (INTS, {"ignore-delete": "true"}, [0, 1, 2, 3]),
    "partial update ignores deletes": (INTS, {**PARTIAL, "ignore-delete": "true"}, [0, 1, 2, 3]),
    "aggregation ignores deletes": (*aggregated(FUNCTIONS, ignore_delete="true"), [0, 1, 2, 3]),
    "first row ignores deletes": (INTS, {"merge-engine": "first-row", "ignore-delete": "true"}, [0, 1, 2, 3]),
    "deduplicate ignores updates before": (INTS, {"ignore-update-before": "true"}, [0, 1, 2, 3]),
}

WORDS = ["", "a", "b", "ab", "é"]


def value(random: Random, name: str, type_: Any) -> Any:
    if isinstance(type_, dict):
        count = random.randrange(4)
        if type_["type"] == "MAP":
            return list({random.choice(WORDS): maybe(random, random.randint(-3, 3)) for _ in range(count)}.items())
        if isinstance(type_["element"], dict):
            members = {member["name"]: member["type"] for member in type_["element"]["fields"]}
            rows = [{n: maybe(random, value(random, n, t)) for n, t in members.items()} for _ in range(count)]
            return [maybe(random, row) for row in rows]
        return [maybe(random, value(random, name, type_["element"])) for _ in range(count)]
    if type_.startswith("DECIMAL"):
        scale = int(type_.removesuffix(" NOT NULL").rstrip(")").rsplit(" ", 1)[1])
        return Decimal(random.randint(-50000, 50000)).scaleb(-scale)
    if type_.startswith(("DOUBLE", "FLOAT")):
        return random.choice([0.5, -0.25, 3.0, -0.0, 1024.0])
    if type_.startswith("BOOLEAN"):
        return random.random() < 0.5
    if name == "factor":
        return random.choice([1, 2, -3, 5])
    return random.choice(WORDS) if type_.startswith("STRING") else random.randint(-3, 3)


def maybe(random: Random, value: Any) -> Any:
    return None if random.random() < 0.25 else value


def random_row(random: Random, columns: dict[str, Any]) -> Row:
    return {
        name: value(random, name, type_) if "NOT NULL" in type_ else maybe(random, value(random, name, type_))
        for name, type_ in columns.items()
    }
