"""The columns of the shop's tables, and what stands in them: each value is a hash of seed, table, column and event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

EPOCH_MILLIS = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
MILLIS_AN_EVENT = 40
CITIES = ("北京", "上海", "广州", "深圳", "杭州", "成都", "武汉", "西安", "Zürich", "Oslo", "呼和浩特", "São Paulo")
STREETS = ("人民路", "中山路", "解放路", "Harbour Road", "滨海大道", "科技园", "花园街", "Rue de l'Église")
NAMES = ("王伟", "李芳", "张敏", "刘洋", "陈静", "O'Brien", "Müller", "赵磊", "黄丽", "Ada", "吴强", "周涛")
WORDS = (
    "quiet",
    "bright",
    "易碎品 🎁",
    'at the "front" desk',
    "a\\b",
    "two\nlines",
    "周末送货",
    "smart",
    "soft",
    "solid",
)
SQL_TYPES = {
    "bigint": -5,
    "int": 4,
    "tinyint": -6,
    "decimal": 3,
    "varchar": 12,
    "text": 2005,
    "datetime": 93,
    "date": 91,
}
Values = Callable[[np.ndarray, np.ndarray], Sequence[str]]


def mixed(seed: int, stream: int, numbers: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each number: splitmix64."""
    with np.errstate(over="ignore"):
        hashes = numbers.astype(np.uint64) + np.uint64(
            (seed * 0x9E3779B97F4A7C15 + stream * 0xD1342543DE82EF95) % 2**64
        )
        for shift, factor in ((30, 0x9E3779B97F4A7C15), (27, 0x94D049BB133111EB)):
            hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
        return hashes ^ (hashes >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Column:
    """A column in MySQL's words, its values as canal writes them, and how many of a thousand are null."""

    name: str
    mysql_type: str
    values: Values
    nulls: int = 0

    @property
    def sql_type(self) -> int:
        return SQL_TYPES[self.mysql_type.partition("(")[0]]

    def texts(self, seed: int, table: str, events: np.ndarray) -> list[str | None]:
        hashes = mixed(seed, crc32(f"{table}.{self.name}".encode()), events)
        texts = self.values(hashes, events)
        if not self.nulls:
            return list(texts)
        absent = (mixed(seed, 1, hashes) % np.uint64(1000) < self.nulls).tolist()
        return [None if null else text for null, text in zip(absent, texts, strict=True)]


def numbers(low: int, high: int) -> Values:
    return lambda hashes, _: [
        str(number) for number in ((hashes % np.uint64(high - low + 1)).astype(int) + low).tolist()
    ]


def decimals(scale: int, below: int) -> Values:
    unit = 10**scale
    return lambda hashes, _: [
        f"{number // unit}.{number % unit:0{scale}}" for number in (hashes % np.uint64(below * unit)).tolist()
    ]


def codes(prefix: str) -> Values:
    return lambda hashes, _: [f"{prefix}{number}" for number in (hashes % np.uint64(10**10)).tolist()]


def drawn(kinds: Sequence[Sequence[str]], size: int = 5000, between: str = " ") -> Values:
    """One of `size` texts, each a word of every kind and a number."""
    texts = []
    for place, hash_ in enumerate(mixed(1, len(kinds), np.arange(size)).tolist()):
        words = [kind[(hash_ >> (8 * at)) % len(kind)] for at, kind in enumerate(kinds)]
        texts.append(between.join([*words, str(place)]))
    return lambda hashes, _: [texts[place] for place in (hashes % np.uint64(size)).tolist()]


def moments(unit: str) -> Values:
    """When the event was."""

    def texts(_: np.ndarray, events: np.ndarray) -> list[str]:
        millis = events.astype(np.int64) * MILLIS_AN_EVENT + EPOCH_MILLIS
        return [
            text.replace("T", " ")
            for text in np.datetime_as_string(millis.astype("M8[ms]").astype(f"M8[{unit}]")).tolist()
        ]

    return texts


def days(hashes: np.ndarray, _: np.ndarray) -> list[str]:
    return list(np.datetime_as_string((hashes % np.uint64(16_000)).astype(np.int64).astype("M8[D]")).tolist())


ADDRESSES = drawn([CITIES, STREETS, STREETS], between="，")
PEOPLE = drawn([NAMES, NAMES])
GOODS = drawn([WORDS, WORDS, CITIES])
NOTES = drawn([WORDS, WORDS])
LONG = drawn([WORDS, CITIES] * 4)
LINKS = drawn([("https://img.example.com",), ("a", "b", "c")], between="/")


@dataclass(frozen=True, slots=True)
class ShopTable:
    """A table: its share of the events, its columns after `id`, and which of them updates touch together."""

    name: str
    share: int
    columns: tuple[Column, ...]
    touched: tuple[tuple[str, ...], ...]

    @property
    def mysql_types(self) -> dict[str, str]:
        return {"id": "bigint"} | {column.name: column.mysql_type for column in self.columns}


ORDERS = ShopTable(
    "orders",
    35,
    (
        Column("order_no", "varchar(32)", codes("SO2026")),
        Column("user_id", "bigint", numbers(1, 400_000)),
        Column("store_id", "int", numbers(1, 800)),
        Column("status", "tinyint(4)", numbers(0, 7)),
        Column("pay_type", "tinyint(4)", numbers(0, 3)),
        Column("total_amount", "decimal(16,2)", decimals(2, 20_000)),
        Column("freight", "decimal(10,2)", decimals(2, 60)),
        Column("discount", "decimal(10,4)", decimals(4, 300), nulls=300),
        Column("province", "varchar(32)", drawn([CITIES], 32)),
        Column("city", "varchar(32)", drawn([CITIES], 40)),
        Column("address", "varchar(255)", ADDRESSES),
        Column("receiver", "varchar(64)", PEOPLE),
        Column("phone", "varchar(20)", codes("1")),
        Column("remark", "text", NOTES, nulls=600),
        Column("channel", "varchar(16)", drawn([("app", "web", "shop")], 6)),
        Column("create_time", "datetime", moments("s")),
        Column("pay_time", "datetime", moments("s"), nulls=400),
        Column("update_time", "datetime(3)", moments("ms")),
        Column("version", "int", numbers(0, 100_000)),
    ),
    (
        ("status", "pay_time", "update_time", "version"),
        ("total_amount", "discount", "update_time"),
        ("address", "remark"),
    ),
)
ORDER_DETAIL = ShopTable(
    "order_detail",
    40,
    (
        Column("order_id", "bigint", numbers(1, 600_000)),
        Column("sku_id", "bigint", numbers(1, 100_000)),
        Column("sku_name", "varchar(200)", GOODS),
        Column("img_url", "varchar(255)", LINKS),
        Column("sku_num", "int", numbers(1, 20)),
        Column("price", "decimal(12,2)", decimals(2, 5000)),
        Column("amount", "decimal(16,2)", decimals(2, 20_000)),
        Column("coupon", "decimal(10,2)", decimals(2, 50), nulls=700),
        Column("origin", "varchar(32)", drawn([CITIES], 60)),
        Column("create_time", "datetime", moments("s")),
        Column("update_time", "datetime", moments("s")),
    ),
    (("sku_num", "amount", "update_time"), ("coupon", "amount", "update_time"), ("price", "update_time")),
)
USER_INFO = ShopTable(
    "user_info",
    15,
    (
        Column("login_name", "varchar(64)", codes("u")),
        Column("nick_name", "varchar(64)", PEOPLE),
        Column("email", "varchar(128)", drawn([("mail", "post"), ("a", "b")], between="."), nulls=100),
        Column("phone", "varchar(20)", codes("1")),
        Column("gender", "tinyint(4)", numbers(0, 2)),
        Column("birthday", "date", days, nulls=200),
        Column("user_level", "tinyint(4)", numbers(1, 9)),
        Column("balance", "decimal(18,2)", decimals(2, 100_000)),
        Column("score", "bigint", numbers(0, 10**10)),
        Column("city", "varchar(32)", drawn([CITIES], 40)),
        Column("bio", "text", LONG, nulls=500),
        Column("create_time", "datetime", moments("s")),
        Column("update_time", "datetime", moments("s")),
    ),
    (("balance", "update_time"), ("score", "user_level", "update_time"), ("nick_name", "bio", "update_time")),
)
SKU = ShopTable(
    "sku",
    10,
    (
        Column("spu_id", "bigint", numbers(1, 20_000)),
        Column("title", "varchar(200)", GOODS),
        Column("price", "decimal(12,2)", decimals(2, 5000)),
        Column("cost", "decimal(12,4)", decimals(4, 3000)),
        Column("stock", "int", numbers(0, 10**6)),
        Column("weight", "decimal(8,3)", decimals(3, 1000)),
        Column("status", "tinyint(4)", numbers(0, 3)),
        Column("description", "text", LONG),
        Column("create_time", "datetime", moments("s")),
        Column("update_time", "datetime", moments("s")),
    ),
    (("stock", "update_time"), ("price", "update_time"), ("title", "description", "status", "update_time")),
)
TABLES = {table.name: table for table in (ORDERS, ORDER_DETAIL, USER_INFO, SKU)}
