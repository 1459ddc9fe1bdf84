"""Runs with the sources of an older Penstock first on the path: one JSON object a line, one JSON answer a line.

Rows travel as Arrow IPC files named in the question. Only what the older version and its tests have is imported.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.remove(str(Path(__file__).resolve().parent))

import pyarrow as pa

import penstock
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from tests.simulation.tellers import Ours


def opened(path: str) -> Table:
    return Table(TableStore.open(LocalStorage(sync=False), path, None))


def perform(path: str, step: str, number: int) -> dict[str, Any]:
    teller = Ours(lambda branch: TableStore.open(LocalStorage(sync=False), path, branch), "older-penstock")
    teller.tell(json.loads(step), number)
    return {}


def read(path: str, out: str) -> dict[str, Any]:
    rows = opened(path).scan().to_arrow()
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    return {}


def version() -> dict[str, Any]:
    return {"folder": str(Path(str(penstock.__file__)).resolve().parent)}


OPERATIONS = {"perform": perform, "read": read, "version": version}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return OPERATIONS[question.pop("op")](**question)
    except Exception as error:  # noqa: BLE001 -- whatever it raises is an answer
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


# Its own prints go to stderr: stdout carries answers only.
out, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    out.write(json.dumps(answer(json.loads(line))) + "\n")
    out.flush()
