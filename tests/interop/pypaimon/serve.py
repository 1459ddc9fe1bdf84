"""Runs in pypaimon's own environment: one JSON object a line on stdin, one JSON answer a line on stdout.

Rows travel as Arrow IPC files named in the question. Knows nothing of Penstock.
"""

from __future__ import annotations

import json
import sys
import traceback

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import DataField, PyarrowFieldParser
from pypaimon.table.file_store_table import FileStoreTable


def create(warehouse, table, fields, primary_keys, partition_keys, options, catalog_options=None):
    catalog = CatalogFactory.create({"warehouse": warehouse, **(catalog_options or {})})
    catalog.create_database(table.partition(".")[0], True)
    schema = Schema(
        fields=[DataField.from_dict(field) for field in fields],
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
    )
    catalog.create_table(table, schema, False)
    return {}


def opened(path, catalog_options):
    """Return the table of a folder, or with the options of a catalog, the table with the name `path`."""
    if catalog_options is None:
        return FileStoreTable.from_path(path)
    return CatalogFactory.create(catalog_options).get_table(path)


def read(path, out, options, catalog_options=None):
    table = opened(path, catalog_options)
    builder = (table.copy(options) if options else table).new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    return {}


def write(path, rows, overwrite, catalog_options=None):
    table = opened(path, catalog_options)
    with pa.OSFile(rows) as file:
        data = pa.ipc.open_file(file).read_all()
    wanted = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
    data = data.cast(pa.schema([wanted.field(name) for name in data.column_names]))
    builder = table.new_batch_write_builder()
    if overwrite is not None:
        builder = builder.overwrite(overwrite)
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(data)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return {}


def command(catalog_options, method, arguments):
    """Call a method of the catalog, and return its result if that is JSON."""
    result = getattr(CatalogFactory.create(catalog_options), method)(*arguments)
    return {"result": result if isinstance(result, list | dict | str | int) else None}


OPERATIONS = {"create": create, "read": read, "write": write, "command": command}


def answer(question):
    try:
        return OPERATIONS[question.pop("op")](**question)
    except Exception as error:  # noqa: BLE001  whatever pypaimon throws is an answer
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


# Its own prints go to stderr: stdout carries answers only.
out, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    out.write(json.dumps(answer(json.loads(line))) + "\n")
    out.flush()
