"""WKB as GeoJSON text in the spelling of Paimon's CDC actions.

Members have a fixed order, there are no blanks, and whole numbers have no fraction.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from penstock.formats.json_text import java_double

# MySQL's names of the types that contain a geometry.
GEOMETRY_TYPES = frozenset(
    [
        "GEOMETRY",
        "POINT",
        "LINESTRING",
        "POLYGON",
        "MULTIPOINT",
        "MULTILINESTRING",
        "MULTIPOLYGON",
        "GEOMETRYCOLLECTION",
        "GEOMCOLLECTION",
    ]
)
_NAMES = {
    1: "Point",
    2: "LineString",
    3: "Polygon",
    4: "MultiPoint",
    5: "MultiLineString",
    6: "MultiPolygon",
    7: "GeometryCollection",
}
_COLLECTION = 7
# Of EWKB, the form of PostGIS: four bytes with the SRID follow the type.
_SRID_FLAG = 0x20000000
# A forged value could nest collections until Python's stack is exhausted.
_MAX_DEPTH = 32
_BYTE_ORDERS = {0: ">", 1: "<"}


def geojson(wkb: bytes, srid: int = 0) -> str:
    """Return the GeoJSON text of a geometry; ValueError if the bytes are not WKB of a flat geometry.

    An SRID inside the WKB takes precedence over `srid`.
    """
    try:
        geometry = _Wkb(wkb)
        kind, body = geometry.geometry(0)
    except struct.error as error:
        raise ValueError("the geometry is truncated") from error
    if geometry.at != len(wkb):
        raise ValueError(f"{len(wkb) - geometry.at} unexpected bytes after the geometry")
    member = "geometries" if kind == _COLLECTION else "coordinates"
    return f'{{"{member}":{body},"type":"{_NAMES[kind]}","srid":{geometry.srid or srid}}}'


class _Wkb:
    """A cursor over well-known binary, in which every nested geometry has a separate byte order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.srid = 0
        self.order = "<"

    def geometry(self, depth: int) -> tuple[int, str]:
        if depth > _MAX_DEPTH:
            raise ValueError("the geometry is nested too deeply")
        (order,) = struct.unpack_from("B", self.data, self.at)
        if order not in _BYTE_ORDERS:
            raise ValueError(f"the byte order of the geometry at byte {self.at} is {order}: 0 or 1 is expected")
        self.order = _BYTE_ORDERS[order]
        self.at += 1
        kind = self.unsigned()
        if kind & _SRID_FLAG:
            self.srid, kind = self.unsigned(), kind & ~_SRID_FLAG
        match kind:
            case 1:
                return kind, self.position()
            case 2:
                return kind, self.positions()
            case 3:
                return kind, self.array(self.positions)
            case 4 | 5 | 6:
                return kind, self.array(lambda: self.geometry(depth + 1)[1])
            case 7:
                return kind, self.array(lambda: self.member(depth + 1))
        raise ValueError(f"geometry type {kind} is unknown")

    def member(self, depth: int) -> str:
        kind, body = self.geometry(depth)
        member = "geometries" if kind == _COLLECTION else "coordinates"
        return f'{{"type":"{_NAMES[kind]}","{member}":{body}}}'

    def unsigned(self) -> int:
        (value,) = struct.unpack_from(f"{self.order}I", self.data, self.at)
        self.at += 4
        return int(value)

    def position(self) -> str:
        x, y = struct.unpack_from(f"{self.order}dd", self.data, self.at)
        self.at += 16
        return f"[{_number(x)},{_number(y)}]"

    def positions(self) -> str:
        return self.array(self.position)

    def array(self, element: Callable[[], str]) -> str:
        # Every element has bytes, so reading a forged count stops at the end of the data.
        return "[" + ",".join([element() for _ in range(self.unsigned())]) + "]"


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("a coordinate is not finite")
    return str(int(value)) if value.is_integer() else java_double(value)
