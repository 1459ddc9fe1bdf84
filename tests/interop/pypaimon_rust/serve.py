"""Runs in pypaimon-rust's own environment: one JSON object a line on stdin, one JSON answer a line on stdout.

Rows travel as Arrow IPC files named in the question. Knows nothing of Penstock.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog


def opened(path):
    folder = Path(path)
    catalog = PaimonCatalog({"warehouse": str(folder.parent.parent)})
    return catalog.get_table((folder.parent.stem, folder.name))


def read(path, out):
    builder = opened(path).new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    rows = pa.Table.from_batches(batches) if batches else None
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema if rows else pa.schema([])) as writer:
        if rows is not None:
            writer.write_table(rows)
    return {}


def write(path, rows):
    with pa.OSFile(rows) as file:
        data = pa.ipc.open_file(file).read_all()
    builder = opened(path).new_batch_write_builder()
    writer = builder.new_write()
    for batch in data.combine_chunks().to_batches():
        writer.write_arrow(batch)
    builder.new_commit().commit(writer.prepare_commit())
    writer.close()
    return {}


OPERATIONS: dict[str, Callable[..., Any]] = {"read": read, "write": write}


def answer(question):
    try:
        return OPERATIONS[question.pop("op")](**question)
    except BaseException as error:  # noqa: BLE001  a panic of Rust is no Exception, and is an answer too
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


# Its own prints go to stderr: stdout carries answers only.
out, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    out.write(json.dumps(answer(json.loads(line))) + "\n")
    out.flush()
