"""The procedure merge_into: MERGE with its clauses as texts, as in Flink."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.dml.merge_into import MergeSource, merge_into
from penstock.table.sql.dml.merge_query import Clause
from penstock.table.sql.grammar.scripts import script_parts
from penstock.table.sql.procedures.procedure import Arguments, Procedure, snapshot_texts, table_of

# The arguments of a clause, by its action. A clause is part of the merge if its values or its condition are given.
_UPSERT, _INSERT, _DELETE = "matched-upsert", "not-matched-insert", "matched-delete"
_VALUES = {
    _UPSERT: "matched_upsert_setting",
    _INSERT: "not_matched_insert_values",
    "not-matched-by-source-upsert": "not_matched_by_source_upsert_setting",
}
_CONDITIONS = {
    _UPSERT: "matched_upsert_condition",
    _INSERT: "not_matched_insert_condition",
    _DELETE: "matched_delete_condition",
    "not-matched-by-source-upsert": "not_matched_by_source_upsert_condition",
    "not-matched-by-source-delete": "not_matched_by_source_delete_condition",
}


def _merge_into(catalog: Catalog, given: Arguments) -> list[str]:
    for name in ("source_table", "merge_condition"):
        if given.text(name) is None:
            raise ConfigError(
                f"merge_into needs the argument {name!r}",
                hint="add it by its name, such as  source_table => 'db.changes', merge_condition => 't.id = s.id'",
            )
    table_of(catalog, given, "target_table")
    clauses = [clause for action in _CONDITIONS if (clause := _clause(given, action)) is not None]
    if not clauses:
        raise ConfigError("merge_into needs an action", hint=f"set one of {', '.join(_VALUES.values())}")
    statements = [part.text for part in script_parts(given.text("source_sqls") or "")]
    made = merge_into(
        catalog,
        given.needed("target_table"),
        MergeSource(given.needed("source_table"), statements),
        given.needed("merge_condition"),
        clauses,
        target_as=given.text("target_alias"),
    )
    return snapshot_texts(made, "no row changes")


def _clause(given: Arguments, action: str) -> Clause | None:
    values = given.text(_VALUES[action]) if action in _VALUES else None
    condition = given.text(_CONDITIONS[action])
    if values is None and condition is None:
        return None
    # A delete without a condition is written as the condition TRUE.
    return Clause(action, values, condition)


MERGE_PROCEDURES = {
    "merge_into": Procedure(
        (
            "target_table",
            "target_alias",
            "source_sqls",
            "source_table",
            "merge_condition",
            "matched_upsert_condition",
            "matched_upsert_setting",
            "not_matched_insert_condition",
            "not_matched_insert_values",
            "matched_delete_condition",
            "not_matched_by_source_upsert_condition",
            "not_matched_by_source_upsert_setting",
            "not_matched_by_source_delete_condition",
        ),
        1,
        _merge_into,
    ),
}
