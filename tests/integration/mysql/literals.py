"""SQL literals for every column type: ordinary ones, both extremes, odd ones. Drawn by a seeded dice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal

Draw = Callable[[random.Random], str]
TEXTS = ["", "a", "it''s", "back\\\\slash", "tab\\tnew\\nline", "trailing  ", "0", 'quote "x"']


def one_of(*literals: str) -> Draw:
    return lambda dice: dice.choice(literals)


def integer(bits: int, *, unsigned: bool = False) -> Draw:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def draw(dice: random.Random) -> str:
        magnitude = dice.randint(0, high) >> dice.randint(0, bits - 1)
        return str(dice.choice([low, high, 0, 1, magnitude, magnitude if unsigned else -magnitude]))

    return draw


def decimal(precision: int, scale: int) -> Draw:
    limit = 10**precision - 1

    def draw(dice: random.Random) -> str:
        unscaled = dice.choice(
            [0, 1, -1, limit, -limit, dice.randint(-limit, limit) // 10 ** dice.randint(0, precision)]
        )
        return f"{Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)):f}"

    return draw


def floating(dice: random.Random) -> str:
    value = dice.uniform(-1, 1) * 10 ** dice.randint(-30, 30)
    return dice.choice(["0", "-0e0", "1.5", "3.4028234663852886e38", "-1.17549435e-38", "0.1", repr(value)])


def double(dice: random.Random) -> str:
    value = dice.uniform(-1, 1) * 10 ** dice.randint(-300, 300)
    return dice.choice(
        ["0", "-0e0", "1.7976931348623157e308", "-2.2250738585072014e-308", "0.1", "123456789.12345678", repr(value)]
    )


def text(characters: str, limit: int) -> Draw:
    def draw(dice: random.Random) -> str:
        if dice.random() < 0.3:
            return f"'{dice.choice([item for item in TEXTS if len(item) <= limit])}'"
        length = dice.choice([1, 3, limit, dice.randint(0, limit)])
        return "'" + "".join(dice.choice(characters) for _ in range(length)) + "'"

    return draw


def raw(limit: int) -> Draw:
    def draw(dice: random.Random) -> str:
        body = dice.randbytes(dice.randint(0, limit))
        return (
            "X'"
            + dice.choice([body, b"", b"\0" * min(limit, 3), body + b"\0" if len(body) < limit else body]).hex()
            + "'"
        )

    return draw


def packable(limit: int) -> Draw:
    """Texts that some columns keep compressed; both of zlib's forms."""

    def draw(dice: random.Random) -> str:
        return f"REPEAT('{dice.choice(['a', 'é', 'ab'])}', {dice.choice([0, 1, 40, limit // 2])})"

    return draw


def bits(count: int) -> Draw:
    return lambda dice: f"b'{dice.choice([0, 1, 2**count - 1, dice.getrandbits(count)]):b}'"


def date(dice: random.Random) -> str:
    ordinary = f"{dice.randint(1, 9999):04}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
    return (
        "'"
        + dice.choice(["1000-01-01", "9999-12-31", "0000-00-00", "2024-02-29", "2024-00-10", ordinary, ordinary])
        + "'"
    )


def fraction(dice: random.Random, digits: int) -> str:
    return f".{dice.choice([0, 10**digits - 1, dice.randint(0, 10**digits - 1)]):0{digits}}" if digits else ""


def datetime(digits: int) -> Draw:
    def draw(dice: random.Random) -> str:
        clock = dice.choice(["00:00:00", "23:59:59", f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:01"])
        return f"{date(dice)[:-1]} {clock}{fraction(dice, digits)}'"

    return draw


def timestamp(digits: int) -> Draw:
    def draw(dice: random.Random) -> str:
        # FROM_UNIXTIME would go through the session's zone twice; plain texts meet the hours that DST skips or doubles.
        year = dice.choice([1970, 2037, dice.randint(1971, 2036)])
        ordinary = f"{year}-{dice.randint(1, 12):02}-{dice.randint(2, 28):02} {dice.randint(0, 23):02}:30:15"
        return (
            "'"
            + dice.choice([ordinary, ordinary, "0000-00-00 00:00:00", "2024-03-31 02:30:00", "2023-11-05 01:30:00"])
            + fraction(dice, digits)
            + "'"
        )

    return draw


def time(digits: int) -> Draw:
    def draw(dice: random.Random) -> str:
        hours = dice.choice([0, 12, 23, 24, 838, dice.randint(0, 23), dice.randint(0, 838)])
        sign = "-" if dice.random() < 0.3 else ""
        rest = "59:58" if hours == 838 else f"{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
        return f"'{sign}{hours:02}:{rest}{fraction(dice, digits)}'"

    return draw


def json_document(dice: random.Random) -> str:
    def value(depth: int) -> object:
        kind = dice.randint(0, 9 if depth < 4 else 6)
        match kind:
            case 0:
                return dice.choice([None, True, False])
            case 1:
                return dice.choice(
                    [0, -1, 32767, -32768, 32768, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, 2**64 - 1, -(2**63)]
                )
            case 2:
                return dice.uniform(-1, 1) * 10 ** dice.randint(-25, 25)
            case 3 | 4:
                return "".join(dice.choice('abc"\\/ \n\t中😀\x01') for _ in range(dice.choice([0, 1, 5, 200])))
            case 5 | 6:
                return dice.choice([1.0, 1e15, 1e16, 0.1, -25000000000.0, ""])
            case 7:
                return [value(depth + 1) for _ in range(dice.choice([0, 1, 3, 9]))]
        return {
            f"k{dice.randint(0, 30)}" + "长" * dice.randint(0, 2): value(depth + 1)
            for _ in range(dice.choice([0, 1, 4]))
        }

    document = json.dumps(value(0), ensure_ascii=False).replace("\\", "\\\\").replace("'", "''")
    return f"'{document}'"


def sql_values_in_json(dice: random.Random) -> str:
    inside = dice.choice(
        [
            f"CAST({decimal(20, 5)(dice)} AS DECIMAL(20,5))",
            f"CAST('{dice.randint(1000, 9999)}-02-03' AS DATE)",
            "CAST('2024-02-29 12:34:56.789012' AS DATETIME(6))",
            f"CAST({time(6)(dice)} AS TIME(6))",
            "CAST(X'00FF10' AS BINARY(3))",
            "CAST(18446744073709551615 AS UNSIGNED)",
            "b'101'",
        ]
    )
    return f"JSON_OBJECT('v', {inside}, 'w', JSON_ARRAY({inside}, 1))"


def geometry(dice: random.Random) -> str:
    x, y = dice.randint(-9, 9), dice.choice([0.5, 1e-7, 123456.789, -3])
    text = dice.choice(
        [
            f"POINT({x} {y})",
            f"LINESTRING(0 0,{x} {y},2 2)",
            "POLYGON((0 0,4 0,4 4,0 4,0 0),(1 1,2 1,2 2,1 1))",
            f"MULTIPOINT(1 1,{x} {y})",
            "MULTILINESTRING((0 0,1 1),(2 2,3 3))",
            "MULTIPOLYGON(((0 0,4 0,4 4,0 0)),((9 9,8 9,8 8,9 9)))",
            f"GEOMETRYCOLLECTION(POINT({x} 1),LINESTRING(0 0,1 1))",
        ]
    )
    return f"ST_GeomFromText('{text}')"


UTF8 = "abcXYZ é中文字😀ß"
TYPES: dict[str, Draw] = {
    "TINYINT": integer(8),
    "TINYINT(1)": one_of("0", "1", "-128", "127"),
    "TINYINT UNSIGNED": integer(8, unsigned=True),
    "SMALLINT": integer(16),
    "SMALLINT UNSIGNED": integer(16, unsigned=True),
    "MEDIUMINT": integer(24),
    "MEDIUMINT UNSIGNED": integer(24, unsigned=True),
    "INT": integer(32),
    "INT UNSIGNED": integer(32, unsigned=True),
    "BIGINT": integer(64),
    "BIGINT UNSIGNED": integer(64, unsigned=True),
    "FLOAT": floating,
    "DOUBLE": double,
    "FLOAT(7,3)": one_of("0", "1234.567", "-9999.999", "0.001"),
    "DOUBLE(12,3)": one_of("0", "123456789.123", "-999999999.999", "0.001"),
    "DECIMAL(1,0)": decimal(1, 0),
    "DECIMAL(10,2)": decimal(10, 2),
    "DECIMAL(18,18)": decimal(18, 18),
    "DECIMAL(19,9)": decimal(19, 9),
    "DECIMAL(38,10)": decimal(38, 10),
    "DECIMAL(39,0)": decimal(39, 0),
    "DECIMAL(65,30)": decimal(65, 30),
    "BIT(1)": bits(1),
    "BIT(9)": bits(9),
    "BIT(33)": bits(33),
    "BIT(64)": bits(64),
    "DATE": date,
    "YEAR": one_of("0", "1901", "2155", "2024"),
    "TIME": time(0),
    "TIME(1)": time(1),
    "TIME(3)": time(3),
    "TIME(6)": time(6),
    "DATETIME": datetime(0),
    "DATETIME(2)": datetime(2),
    "DATETIME(3)": datetime(3),
    "DATETIME(6)": datetime(6),
    "TIMESTAMP NULL": timestamp(0),
    "TIMESTAMP(4) NULL": timestamp(4),
    "TIMESTAMP(6) NULL": timestamp(6),
    "CHAR(10)": text(UTF8, 10),
    "CHAR(255)": text(UTF8, 255),
    "VARCHAR(20)": text(UTF8, 20),
    "VARCHAR(300)": text(UTF8, 300),
    "CHAR(5) CHARACTER SET latin1": text("abc éü€", 5),
    "VARCHAR(40) CHARACTER SET latin1": text("abc éü€", 40),
    "VARCHAR(40) CHARACTER SET gbk": text("abc汉字编码", 40),
    "VARCHAR(40) CHARACTER SET big5": text("abc漢字", 40),
    "VARCHAR(40) CHARACTER SET sjis": text("abcソ漢字ｱ", 40),
    "VARCHAR(40) CHARACTER SET ujis": text("abc漢字ソ", 40),
    "VARCHAR(40) CHARACTER SET eucjpms": text("abc漢字①㈱", 40),
    "VARCHAR(40) CHARACTER SET swe7": text("abc ÅÄÖåäö", 40),
    "VARCHAR(40) CHARACTER SET euckr": text("abc한국어", 40),
    "VARCHAR(40) CHARACTER SET utf8mb3": text("abc é中文", 40),
    "VARCHAR(40) CHARACTER SET ucs2": text("abc é中文", 40),
    "VARCHAR(40) CHARACTER SET utf16": text(UTF8, 40),
    "VARCHAR(40) CHARACTER SET utf16le": text(UTF8, 40),
    "VARCHAR(40) CHARACTER SET utf32": text(UTF8, 40),
    "VARCHAR(40) CHARACTER SET cp1251": text("abc Привет", 40),
    "VARCHAR(40) CHARACTER SET koi8r": text("abc Привет", 40),
    "VARCHAR(40) CHARACTER SET ascii": text("abc xyz", 40),
    "BINARY(4)": raw(4),
    "BINARY(255)": raw(255),
    "VARBINARY(300)": raw(300),
    "TINYTEXT": text(UTF8, 40),
    "TEXT": text(UTF8, 400),
    "TEXT CHARACTER SET latin1": text("abc éü€", 400),
    "MEDIUMTEXT": text(UTF8, 3000),
    "LONGTEXT": text(UTF8, 20),
    "TINYBLOB": raw(255),
    "BLOB": raw(1000),
    "MEDIUMBLOB": raw(30),
    "LONGBLOB": raw(30),
    "ENUM('small','中','it''s, ok','')": one_of("'small'", "'中'", "'it''s, ok'", "''", "0", "4"),
    "ENUM('é','ü') CHARACTER SET latin1": one_of("'é'", "'ü'"),
    "SET('a','b','ç')": one_of("''", "'a'", "'a,ç'", "'a,b,ç'", "7"),
    "SET(" + ",".join(f"'m{n}'" for n in range(64)) + ")": one_of("''", "'m0,m63'", "18446744073709551615"),
    "GEOMETRY": geometry,
}
MYSQL_TYPES: dict[str, Draw] = {
    **TYPES,
    "JSON": json_document,
    "JSON ": sql_values_in_json,
    "VARCHAR(40) CHARACTER SET gb18030": text("abc汉字😀", 40),
}
MARIADB_TYPES: dict[str, Draw] = {
    **TYPES,
    "JSON": json_document,
    "VARCHAR(300) COMPRESSED": packable(300),
    "VARCHAR(300) COMPRESSED CHARACTER SET latin1": packable(300),
    "TEXT COMPRESSED": packable(5000),
    "BLOB COMPRESSED": packable(5000),
    "UUID": one_of(
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'00000000-0000-0000-0000-000000000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    ),
    "INET4": one_of("'0.0.0.0'", "'192.168.0.255'"),
    "INET6": one_of(
        "'::'",
        "'2001:db8::ff00:42:8329'",
        "'::ffff:192.0.2.128'",
        "'1:0:2:3:4:5:6:7'",
        "'::1'",
        "'::1.2.3.4'",
        "'1:0:0:2:0:0:0:3'",
        "'1:0:0:2:3:0:0:4'",
    ),
}
