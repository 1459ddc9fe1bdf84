"""A small shop's canal messages, as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def change(
    kind: str, table: str, *rows: Mapping[str, object], old: Sequence[Mapping[str, object]] | None = None
) -> str:
    """A canal message; columns named q... are ints, id is the key."""
    names = list(rows[0])
    types = {name: "bigint" if name == "id" else "int" if name.startswith("q") else "varchar(20)" for name in names}
    data = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    return json.dumps(
        {
            "type": kind,
            "database": "shop",
            "table": table,
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": types,
            "data": data,
            "old": old,
            "es": 1_700_000_000_000,
            "ts": 1_700_000_000_001,
        }
    )


def put(folder: Path, name: str, *messages: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{name}").write_text("\n".join(messages) + "\n")
    (folder / f".{name}").rename(folder / name)
