"""CALL: the procedures by name, with Paimon's names and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.catalog.catalog import Catalog
from penstock.table.operations.executor import Executor
from penstock.table.sql.grammar.statements import CallProcedure
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.procedures.compaction_procedures import COMPACTION_PROCEDURES
from penstock.table.sql.procedures.file_procedures import FILE_PROCEDURES
from penstock.table.sql.procedures.merge_procedure import MERGE_PROCEDURES
from penstock.table.sql.procedures.procedure import Arguments, Procedure
from penstock.table.sql.procedures.snapshot_procedures import SNAPSHOT_PROCEDURES
from penstock.table.sql.procedures.tag_procedures import TAG_PROCEDURES
from penstock.table.sql.queries.context import SqlContext, done, one_column
from penstock.table.values.sql_text import literal

PROCEDURES: Mapping[str, Procedure] = {
    **COMPACTION_PROCEDURES,
    **TAG_PROCEDURES,
    **SNAPSHOT_PROCEDURES,
    **FILE_PROCEDURES,
    **MERGE_PROCEDURES,
}
_COPY = "create the table and INSERT INTO it a SELECT from the files, which DuckDB and Spark can read"
_NO_PRIVILEGES = (
    "rights on folders and buckets, or those of a REST catalog, protect tables; privileges of Paimon do not"
)
_NO_FUNCTIONS = "the catalogs keep no functions; write the expression into the query"
_NO_GLOBAL_INDEXES = (
    "files are skipped by their statistics, which a sort makes more useful: "
    "CALL sys.compact(table => '...', order_strategy => 'zorder', order_by => '...')"
)
_NO_SEARCH = "ORDER BY array_distance(a, b) LIMIT n, or a condition, which read all rows of the columns"
# Procedures of Paimon that are not here, each with the way out.
REFUSED_PROCEDURES = {
    "purge_files": "TRUNCATE TABLE, then CALL sys.expire_snapshots(table => '...', retain_max => 1)",
    "migrate_table": _COPY,
    "migrate_database": _COPY,
    "migrate_iceberg_table": _COPY,
    "migrate_file": _COPY,
    "clone": "penstock clone",
    "copy_files": "penstock copy-files",
    "rewrite_file_index": "CALL sys.compact(table => '...', order_strategy => 'zorder', order_by => '...'): files are"
    " skipped by their statistics, which a sort makes more useful; indexes are neither written nor read",
    "rollback_to_as_latest": "INSERT OVERWRITE t SELECT * FROM t VERSION AS OF ...",
    "create_global_index": _NO_GLOBAL_INDEXES,
    "drop_global_index": _NO_GLOBAL_INDEXES,
    "vector_search": _NO_SEARCH,
    "full_text_search": _NO_SEARCH,
    "data_evolution_merge_into": "MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET c = s.c",
    "reassign_row_id": "CREATE TABLE t AS SELECT ... : rows of a new table have new ids",
    "compact_chain_table": "INSERT OVERWRITE t SELECT ... from the tables of the chain, which is not supported itself",
    "repair_earliest_snapshot": "leave the call out: if the file EARLIEST names no snapshot, the snapshots are listed",
    "rename_branch": "create a branch with the other name from a tag, and delete this one",
    "merge_branch": "INSERT INTO t SELECT * FROM t$branch_b, or CALL sys.fast_forward",
    "create_function": _NO_FUNCTIONS,
    "alter_function": _NO_FUNCTIONS,
    "drop_function": _NO_FUNCTIONS,
    "alter_view_dialect": "CREATE TEMPORARY VIEW: the catalogs keep no views",
    "query_service": "penstock.Catalog(...).table(name).scan(where=...) reads single rows by key",
    "refresh_object_table": "object tables are not supported",
    "init_file_based_privilege": _NO_PRIVILEGES,
    "create_privileged_user": _NO_PRIVILEGES,
    "drop_privileged_user": _NO_PRIVILEGES,
    "grant_privilege_to_user": _NO_PRIVILEGES,
    "revoke_privilege_from_user": _NO_PRIVILEGES,
    "materialize_deletion_vectors": "CALL sys.compact(table => '...', compact_strategy => 'full')",
}
_TABLES = ("table", "target_table")


def call(context: SqlContext, statement: CallProcedure) -> pa.Table:
    """Run CALL."""
    procedure = find_procedure(statement.name)
    if statement.catalog is not None and statement.catalog != context.current.name:
        raise ConfigError(
            f"{statement.catalog!r} is not the current catalog, which is {context.current.name!r}",
            hint=f"CALL sys.{statement.name}(...) works on the current catalog; USE CATALOG chooses it",
        )
    results = _run(procedure, context.catalog, _bound(context, statement, procedure))
    return done() if results is None else one_column("result", results)


def find_procedure(name: str) -> Procedure:
    """Return the procedure of a name."""
    if name in REFUSED_PROCEDURES:
        raise ConfigError(f"the procedure {name!r} is not supported", hint=REFUSED_PROCEDURES[name])
    if name not in PROCEDURES:
        hint = did_you_mean(name, PROCEDURES, "SHOW PROCEDURES lists them")
        raise ConfigError(f"there is no procedure {name!r}", hint=hint)
    return PROCEDURES[name]


def too_many(name: str, procedure: Procedure) -> ConfigError:
    """Return the error of a call with more arguments by place than the procedure has places."""
    count = len(procedure.places)
    return ConfigError(f"{name} has {count} parameter{'s' * (count != 1)}", hint=procedure.usage(name))


def run_named(name: str, catalog: Catalog, values: Mapping[str, str], executor: Executor | None) -> list[str] | None:
    """Run a procedure with values by the names of its parameters; tables have full names.

    `executor` runs the units of its actions. Return its results as texts, None if it returns no rows.
    """
    procedure = find_procedure(name)
    return _run(procedure, catalog, replace(procedure.bound(name, values), executor=executor))


def _run(procedure: Procedure, catalog: Catalog, arguments: Arguments) -> list[str] | None:
    found = procedure.run(catalog, arguments)
    if isinstance(found, list):
        return [str(text) for text in found]
    return None if found is None else [str(found)]


def _bound(context: SqlContext, statement: CallProcedure, procedure: Procedure) -> Arguments:
    """Return the values of a call. Names of tables are completed by the current database."""
    name, places = statement.name, procedure.places
    if len(statement.positional) > len(places):
        raise too_many(name, procedure)
    texts = dict(zip(places, statement.positional, strict=False))
    twice = next((argument for argument in statement.named if argument in texts), None)
    if twice is not None:
        raise ConfigError(f"the argument {twice!r} of {name} is set twice", hint=procedure.usage(name))
    # Arguments are expressions of SQL, such as a time that is computed, so DuckDB evaluates them. NULL is no value.
    values = {argument: _value(context, text) for argument, text in (texts | dict(statement.named)).items()}
    bound = procedure.bound(name, {argument: value for argument, value in values.items() if value is not None})
    full = {
        argument: context.full_name(bound.texts[argument].split(".")) for argument in _TABLES if argument in bound.texts
    }
    return Arguments({**bound.texts, **full})


def _value(context: SqlContext, text: str) -> str | None:
    value = context.session.query(f"SELECT CAST(({_with_texts(text)}) AS VARCHAR) AS value")["value"][0].as_py()
    return None if value is None else str(value)


def _with_texts(argument: str) -> str:
    """Return an argument with "..." as a text, as Spark reads it: there are no columns that it could name."""
    tokens = ((token, token.name if token.text.startswith('"') else None) for token in tokens_of(argument))
    return "".join(token.text if name is None else literal(name) for token, name in tokens)
