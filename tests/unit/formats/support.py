"""Messages in, plain rows out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, DecodeResult, Messages

DATA = Path(__file__).resolve().parents[2] / "data"
KINDS = ("+I", "-U", "+U", "-D")


def messages(*values: Any, keys: list[Any] | None = None, first: int = 0) -> Messages:
    """Values and keys may be bytes, None or what becomes JSON."""
    offsets = np.arange(first, first + len(values), dtype=np.int64)
    return Messages([raw(value) for value in values], offsets, None if keys is None else [raw(key) for key in keys])


def raw(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False).encode()


def read(name: str, *values: Any, keys: list[Any] | None = None, **options: Any) -> DecodeResult:
    return decode(name, messages(*values, keys=keys), DecodeOptions(**options))


def rows(decoded: DecodeResult) -> list[tuple[str, dict[str, Any]]]:
    """(kind, row) in source order; fails when a record is bad."""
    assert not decoded.bad, decoded.bad
    return [(kind, row) for _pos, _sub, kind, row in placed(decoded)]


def placed(decoded: DecodeResult) -> list[tuple[int, int, str, dict[str, Any]]]:
    found = []
    for batch in decoded.batches:
        assert batch.rows.schema.names == [field.name for field in batch.schema.fields]
        assert (
            len(batch.kinds) == len(batch.positions) == len(batch.subs) == len(batch.event_times) == batch.rows.num_rows
        )
        batch.rows.validate(full=True)
        places = list(zip(batch.positions.tolist(), batch.subs.tolist(), strict=True))
        assert places == sorted(places), "rows of a batch are in source order"
        names = [KINDS[kind] for kind in batch.kinds]
        found += [(*place, kind, row) for place, kind, row in zip(places, names, batch.rows.to_pylist(), strict=True)]
    return sorted(found, key=lambda item: item[:2])


def json_lines(path: Path) -> list[bytes]:
    """The lines of a sample file that are JSON; notices and blank lines are not."""
    return [line.strip() for line in path.read_bytes().splitlines() if is_json(line)]


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict | list)
    except ValueError:
        return False


def recorded(name: str) -> list[bytes]:
    return (DATA / "cdc-recorded" / name).read_bytes().splitlines()
