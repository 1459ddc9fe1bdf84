"""MariaDB's UUID, INET4 and INET6: bytes in the log, texts for everybody else."""

from __future__ import annotations

import ipaddress
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.ingest.mysql.values.labels import same_width
from penstock.ingest.mysql.values.strings import by_distinct

if TYPE_CHECKING:
    from penstock.ingest.mysql.bytesview import Bools, Bytes


def addresses(matrix: Bytes, null: Bools, base: str) -> pa.Array:
    convert = {"uuid": _uuid, "inet4": _inet, "inet6": _inet}[base]
    return by_distinct(same_width(matrix, null), convert, pa.string())


def _uuid(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw))


def _inet(raw: bytes) -> str:
    return str(ipaddress.ip_address(raw))
