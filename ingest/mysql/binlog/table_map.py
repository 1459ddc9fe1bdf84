"""TABLE_MAP events, which describe the columns of the rows that follow."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.mysql.server.charsets import charset_of_collation
from penstock.ingest.mysql.server.wire import PayloadReader

# Type codes of the binlog.
DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = range(10)
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = range(10, 20)
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

# YEAR has a sign bit too (observed on both servers).
NUMERIC = frozenset({TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, NEWDECIMAL, YEAR})
_CHARACTER = frozenset(
    {VARCHAR, VARCHAR_COMPRESSED, STRING, VAR_STRING, BLOB, BLOB_COMPRESSED, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB}
)
_TWO_META_BYTES = frozenset({VARCHAR, VARCHAR_COMPRESSED, VAR_STRING, STRING, BIT, NEWDECIMAL, ENUM, SET})
_ONE_META_BYTE = frozenset(
    {FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, BLOB, BLOB_COMPRESSED, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB}
    | {GEOMETRY, JSON, VECTOR}
)
# The valid sizes: digits, bits, fraction digits, or bytes of a number or of a length prefix.
_SIZES = {
    NEWDECIMAL: (1, 65),
    BIT: (1, 64),
    ENUM: (1, 2),
    SET: (1, 8),
    **dict.fromkeys((TIMESTAMP2, DATETIME2, TIME2), (0, 6)),
    **dict.fromkeys((BLOB, BLOB_COMPRESSED, JSON, GEOMETRY, VECTOR), (1, 4)),
}


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column as the table map describes it; properties that the map lacks are None.

    `kind` is the real type (ENUM and SET are disguised as STRING), `size` its length, precision, fraction digits or
    prefix bytes, `scale` the scale of a DECIMAL.
    """

    kind: int
    size: int
    scale: int
    nullable: bool
    unsigned: bool | None = None
    name: str | None = None
    collation: int | None = None
    labels: tuple[str, ...] | None = None
    geometry: int | None = None
    dimension: int | None = None


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table as described by a TABLE_MAP event; `primary_key` is None if the event does not contain it."""

    database: str
    table: str
    columns: tuple[MappedColumn, ...]
    primary_key: tuple[int, ...] | None = None

    @property
    def has_names(self) -> bool:
        return all(column.name is not None for column in self.columns)

    @property
    def name(self) -> tuple[str, str]:
        return self.database, self.table


def parse_table_map(raw: bytes, *, mariadb: bool = False) -> TableMap:
    """Parse the body of a TABLE_MAP event after its table id."""
    reader = PayloadReader(raw)
    reader.read(2)  # flags
    database, table = _name(reader), _name(reader)
    count = reader.packed()
    kinds = reader.read(count)
    shapes = _shapes(kinds, reader.text())
    nullable = _bits(reader.read((count + 7) // 8), count, most_significant_first=False)
    extras: dict[int, bytes] = {}
    while reader.rest:
        kind = reader.number(1)
        extras[kind] = reader.text()
    return TableMap(database, table, _columns(shapes, nullable, extras, mariadb=mariadb), _primary_key(extras))


def table_name(raw: bytes) -> tuple[str, str]:
    """Return database and table of a TABLE_MAP event, given its body after the table id."""
    reader = PayloadReader(raw)
    reader.read(2)  # flags
    return _name(reader), _name(reader)


def _name(reader: PayloadReader) -> str:
    name = reader.read(reader.number(1)).decode("utf-8", "replace")
    reader.read(1)
    return name


def _bits(raw: bytes, count: int, *, most_significant_first: bool) -> list[bool]:
    flip = 7 if most_significant_first else 0
    return [bool(raw[place // 8] >> (place % 8 ^ flip) & 1) for place in range(count)]


def _shapes(kinds: bytes, meta: bytes) -> list[tuple[int, int, int]]:
    reader, shapes = PayloadReader(meta), []
    for kind in kinds:
        if kind in _TWO_META_BYTES:
            shapes.append(_two_byte_shape(kind, reader.number(1), reader.number(1)))
        elif kind in _ONE_META_BYTE:
            shapes.append((BLOB if TINY_BLOB <= kind <= LONG_BLOB else kind, reader.number(1), 0))
        else:
            shapes.append((kind, 0, 0))
    for kind, size, scale in shapes:
        _check(kind, size, scale)
    return shapes


def _check(kind: int, size: int, scale: int) -> None:
    """Raise ValueError for a size that no server uses for this type: the cells would be cut at wrong positions."""
    least, most = _SIZES.get(kind, (0, 1 << 16))
    if not least <= size <= most or (kind == NEWDECIMAL and scale > min(size, 38)):
        shown = f"{size}, {scale}" if kind == NEWDECIMAL else size
        raise ValueError(f"a column of type {kind} cannot have size {shown}")


def _two_byte_shape(kind: int, first: int, second: int) -> tuple[int, int, int]:
    match kind:
        case 254:
            # Lengths over 255 use two bits of the type, inverted, because those bits are set in all real types.
            if first & 0x30 != 0x30:
                return first | 0x30, second | ((first & 0x30 ^ 0x30) << 4), 0
            return first, second, 0
        case 246:
            return kind, first, second
        case 16:
            # BIT: the bits beyond whole bytes, then the whole bytes.
            return kind, second * 8 + first, 0
        case 247 | 248:
            # ENUM and SET: the second byte is the size of a cell.
            return kind, second, 0
    return VARCHAR if kind == VAR_STRING else kind, first | second << 8, 0


def _columns(
    shapes: list[tuple[int, int, int]], nullable: list[bool], extras: dict[int, bytes], *, mariadb: bool
) -> tuple[MappedColumn, ...]:
    kinds = [kind for kind, _, _ in shapes]
    # Optional metadata by number: 1 signs, 2 and 3 collations, 4 names, 5 and 6 labels of SET and ENUM, 7 kinds of
    # geometry, 8 and 9 the key, 10 and 11 collations of ENUM and SET, 13 dimensions of vectors.
    unsigned = _signs(kinds, extras.get(1))
    names = _names(extras.get(4))
    # MariaDB lists a collation for geometry columns as for any BLOB, MySQL does not. Both list ENUM and SET separately.
    character = _CHARACTER | {GEOMETRY} if mariadb else _CHARACTER
    collations = _collations(kinds, character, extras.get(2), extras.get(3))
    collations |= _collations(kinds, frozenset({ENUM, SET}), extras.get(10), extras.get(11))
    labels = _labels(kinds, collations, extras)
    geometries = dict(zip(_places(kinds, {GEOMETRY}), _numbers(extras.get(7)), strict=False))
    dimensions = dict(zip(_places(kinds, {VECTOR}), _numbers(extras.get(13)), strict=False))
    return tuple(
        MappedColumn(
            kind,
            size,
            scale,
            nullable[place],
            unsigned.get(place),
            names[place] if names else None,
            collations.get(place),
            labels.get(place),
            geometries.get(place),
            dimensions.get(place),
        )
        for place, (kind, size, scale) in enumerate(shapes)
    )


def _places(kinds: list[int], wanted: frozenset[int] | set[int]) -> list[int]:
    return [place for place, kind in enumerate(kinds) if kind in wanted]


def _numbers(raw: bytes | None) -> list[int]:
    reader, numbers = PayloadReader(raw or b""), []
    while reader.rest:
        numbers.append(reader.packed())
    return numbers


def _signs(kinds: list[int], raw: bytes | None) -> dict[int, bool]:
    if raw is None:
        return {}
    places = _places(kinds, NUMERIC)
    return dict(zip(places, _bits(raw, len(places), most_significant_first=True), strict=True))


def _names(raw: bytes | None) -> list[str]:
    reader, names = PayloadReader(raw or b""), []
    while reader.rest:
        names.append(reader.text().decode("utf-8", "replace"))
    return names


def _collations(
    kinds: list[int], wanted: frozenset[int], default: bytes | None, listed: bytes | None
) -> dict[int, int]:
    places = _places(kinds, wanted)
    if listed is not None:
        return dict(zip(places, _numbers(listed), strict=False))
    if default is None:
        return {}
    # The usual collation, then pairs of a column's number among the character columns and its collation.
    usual, *exceptions = _numbers(default)
    found = dict.fromkeys(places, usual)
    for index, collation in zip(exceptions[::2], exceptions[1::2], strict=True):
        found[places[index]] = collation
    return found


_BINARY = 63  # the collation of bytes


def _labels(kinds: list[int], collations: dict[int, int], extras: dict[int, bytes]) -> dict[int, tuple[str, ...]]:
    labels: dict[int, tuple[str, ...]] = {}
    for kind, raw in ((SET, extras.get(5)), (ENUM, extras.get(6))):
        reader = PayloadReader(raw or b"")
        for place in _places(kinds, {kind}) if raw is not None else ():
            texts = [reader.text() for _ in range(reader.packed())]
            found = _decoded(texts, collations.get(place))
            if found is not None:
                labels[place] = found
    return labels


def _decoded(labels: list[bytes], collation: int | None) -> tuple[str, ...] | None:
    """Return the labels as text, None if their character set is unknown.

    The first servers of MySQL 8.0 do not log the collations of ENUM and SET, and a column may be CHARACTER SET binary.
    Bytes that are valid UTF-8 are then read as UTF-8, as a SELECT shows them.
    """
    if collation is not None and collation != _BINARY:
        charset = charset_of_collation(collation)
        return tuple(charset.decode(label) if charset else label.decode("latin-1") for label in labels)
    try:
        return tuple(label.decode() for label in labels)
    except UnicodeDecodeError:
        return None


def _primary_key(extras: dict[int, bytes]) -> tuple[int, ...] | None:
    if 8 in extras:
        return tuple(_numbers(extras[8]))
    if 9 in extras:
        # Key columns with prefixes: each column is followed by the length of its prefix.
        return tuple(_numbers(extras[9])[::2])
    # If the map has all names but no key, the table has no primary key.
    return () if 4 in extras else None
