"""Answers the questions of the Spark catalog by calls of the catalog protocol, as SQL without Spark does.

A request is JSON with a verb, the options of the catalog and arguments. So is an answer, with a value, or with the text
of an error, which Spark then shows without a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.spark_catalog import (
    partition_statements,
    row_statements,
    table_creation,
    table_statements,
    view_statements,
)
from penstock.pipelines.spark_catalog.catalog_jar import is_of_these_classes
from penstock.pipelines.spark_catalog.created_options import set_created_options
from penstock.pipelines.spark_catalog.descriptions import describe
from penstock.pipelines.spark_catalog.global_tables import describe_global, names_global
from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_catalog.table_creation import PROVIDERS
from penstock.pipelines.spark_catalog.tag_statements import TAG_PARAMETERS, TAG_PROCEDURE, run_tag_statement
from penstock.pipelines.spark_source.spark_options import LOADING_OPTIONS
from penstock.table.sql.procedures.procedure_calls import PROCEDURES, find_procedure, run_named, too_many
from penstock.table.sql.queries.global_tables import SYSTEM_DATABASE, global_names
from penstock.table.sql.queries.newest_partitions import newest_partition
from penstock.table.values.sql_text import backquoted, name_parts


def answer(text: str) -> str:
    """Answer a request."""
    given = json.loads(text)
    try:
        return json.dumps({"value": _VERBS[given["verb"]](Request.of(given))})
    except PenstockError as error:
        return json.dumps({"error": str(error)})
    # A verb or an argument that is missing, or has another type.
    except (KeyError, TypeError, ValueError) as error:
        if is_of_these_classes(given.get("jar")):
            raise  # a bug, which reaches the user with its traceback
        return json.dumps({"error": str(_other_jar(given, error))})


def _other_jar(given: Mapping[str, Any], error: Exception) -> ConfigError:
    return ConfigError(
        "the jar of the catalog is of another release of Penstock, and its request cannot be answered",
        request=given.get("verb"),
        reason=f"{type(error).__name__}: {error}",
        hint="write the jar again with  penstock spark-jar PATH  of this release, and start the session with it",
    )


def _database(request: Request) -> dict[str, str] | None:
    name = request.database
    if request.catalog.backend.has_database(name):
        return request.catalog.database_properties(name)
    return {} if name == SYSTEM_DATABASE else None


def _tables(request: Request) -> list[str]:
    if request.database != SYSTEM_DATABASE:
        return request.catalog.tables(request.database)
    own = request.catalog.tables(SYSTEM_DATABASE) if request.catalog.backend.has_database(SYSTEM_DATABASE) else []
    return sorted({*own, *global_names()})


def _table_exists(request: Request) -> bool:
    return request.catalog.table_exists(request.base_name) or names_global(request)


def _describe(request: Request) -> dict[str, Any] | None:
    if request.database in PROVIDERS and "/" in request.given["table"]:
        # Spark takes SELECT * FROM paimon.`/warehouse/db.db/t` for the name of a table.
        path = request.given["table"]
        hint = f'spark.read.format("{request.database}").load("{path}"), or its name in the catalog'
        raise ConfigError("a path is not the name of a table", path=path, hint=hint)
    return describe_global(request) if names_global(request) else describe(request)


def _create_database(request: Request) -> None:
    # Spark adds the owner, which no kind of catalog keeps.
    properties = {name: text for name, text in request.texts("properties").items() if name != "owner"}
    if "location" in properties:
        raise ConfigError("a database cannot choose its location", hint="remove LOCATION: the warehouse contains it")
    if "." in request.database:
        hint = "databases are not in other databases, and their names have no dots"
        raise ConfigError(f"{request.database!r} cannot be the name of a database", hint=hint)
    request.catalog.create_database(request.database, properties=properties)


def _alter_database(request: Request) -> None:
    changes: Mapping[str, str | None] = request.given["changes"]
    # Spark checks no names before it asks.
    request.catalog.alter_database(request.database, changes)


def _drop_database(request: Request) -> bool:
    request.catalog.drop_database(request.database, cascade=bool(request.given["cascade"]))
    return True


def _procedure(request: Request) -> dict[str, object]:
    if request.database != "sys":
        raise ConfigError(
            f"there is no procedure {request.database}.{request.given['table']}",
            hint=f"procedures are in the namespace sys: CALL sys.{request.given['table']}(...)",
        )
    name = str(request.given["table"])
    if name == TAG_PROCEDURE:
        return dict(TAG_PARAMETERS)
    procedure = find_procedure(name)
    # A parameter with two names is optional for Spark, because a call sets one of them.
    doubled = set(procedure.aliases.values())
    required = next(
        (place for place, parameter in enumerate(procedure.parameters) if parameter in doubled), procedure.required
    )
    return {
        "parameters": procedure.names,
        "places": len(procedure.places),
        "required": min(required, procedure.required),
        "description": procedure.usage(name),
        "too_many": str(too_many(name, procedure)),
    }


def _call(request: Request) -> dict[str, list[str]]:
    name = str(request.given["procedure"])
    if name == TAG_PROCEDURE:
        run_tag_statement(request)
        return {"rows": [], "tables": []}
    # Spark binds the arguments of CALL to the parameters by name or place, and sends one value for each parameter.
    values = zip(find_procedure(name).names, request.given["values"], strict=True)
    arguments = {name: str(value) for name, value in values if value is not None}
    tables = [name for name in ("table", "target_table") if name in arguments]
    arguments |= {table: _full_name(arguments[table], request.database) for table in tables}
    results = run_named(name, request.catalog, arguments, request.executor)
    return {"rows": ["OK"] if results is None else results, "tables": [_quoted(arguments[table]) for table in tables]}


def _quoted(table: str) -> str:
    return ".".join(map(backquoted, table.split(".")))


def _full_name(table: str, database: str) -> str:
    """Return the name of a table with its database; the session's database if only the table is named."""
    names = name_parts(table)
    if len(names) not in {1, 2, 3}:
        raise ConfigError(f"{table!r} is not the name of a table", hint="write it as 'database.table'")
    # Spark users may write the catalog in front of the name.
    return ".".join([database, *names][-2:])


_VERBS: Mapping[str, Callable[[Request], Any]] = {
    "databases": lambda request: request.catalog.databases(),
    "database": _database,
    "create_database": _create_database,
    "alter_database": _alter_database,
    "drop_database": _drop_database,
    "state_options": lambda _: LOADING_OPTIONS,
    "describe": _describe,
    "tables": _tables,
    "table_exists": _table_exists,
    "create_table": table_creation.create_table,
    "create_table_like": table_creation.create_table_like,
    "created_options": set_created_options,
    "create_staged": table_creation.create_staged,
    "name_staged": table_creation.name_staged,
    "create_replacement": table_creation.create_replacement,
    "replace_table": table_creation.replace_table,
    "alter_table": table_statements.alter_table,
    "drop_table": table_statements.drop_table,
    "rename_table": table_statements.rename_table,
    "views": view_statements.views,
    "view": view_statements.view,
    "drop_view": view_statements.drop_view,
    "create_view": view_statements.create_view,
    "replace_view": view_statements.replace_view,
    "rename_view": view_statements.rename_view,
    "truncate": lambda request: request.table().truncate(),
    "partitions": partition_statements.partitions,
    "partition_statistics": partition_statements.partition_statistics,
    "drop_partitions": partition_statements.drop_partitions,
    "check_row_changes": row_statements.check_row_changes,
    "can_delete": row_statements.can_delete,
    "delete": row_statements.delete,
    "newest_partition": lambda request: newest_partition(
        request.catalog.table(_full_name(request.given["table"], request.database))
    ),
    "procedures": lambda _: sorted(PROCEDURES),
    "procedure": _procedure,
    "call": _call,
}
