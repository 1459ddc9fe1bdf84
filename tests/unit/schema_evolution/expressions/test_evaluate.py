"""The functions and operators of projections and filters, one by one."""

from __future__ import annotations

import datetime as dt
import hashlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, DecodeError
from penstock.schema_evolution.expressions.evaluate import evaluated
from penstock.schema_evolution.expressions.functions import FUNCTIONS
from penstock.schema_evolution.expressions.nodes import ColumnReference, Item, columns_of
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.text_casts import Misfits, instants_of

NOW = 1_769_860_805_000  # 2026-01-31 12:00:05 UTC
COLUMNS = {
    "s": pa.array([" Ab ", None]),
    "t": pa.array(["hello", "x"]),
    "i": pa.array([7, -7], pa.int32()),
    "z": pa.array([2, 0], pa.int32()),
    "n": pa.array([None, 3], pa.int64()),
    "d": pa.array([Decimal("2.50"), Decimal("-1.25")]),
    "f": pa.array([2.5, -2.5]),
    "b": pa.array([True, False]),
    "ts": pa.array([dt.datetime(2026, 1, 31, 12, 34, 56), None], pa.timestamp("us")),
    "day": pa.array([dt.date(2026, 1, 31), dt.date(1969, 12, 31)]),
    "text_time": pa.array(["2026-01-31 12:34:56", "1969-12-31 00:00:00"]),
    "num": pa.array(["12", "oops"]),
}
SHA = hashlib.sha256(b"hello").hexdigest()


def value(text: str, misfits: Misfits | None = None) -> list[Any]:
    found: list[Any] = evaluated(parse_expression(text), COLUMNS, Moment(NOW, 2), misfits or Misfits()).to_pylist()
    return found


# ruff: noqa: E501 -- a table reads best with a line a function
BY_FUNCTION: dict[str, list[tuple[str, list[Any]]]] = {
    "upper": [("upper(s)", [" AB ", None])],
    "lower": [("lower(s)", [" ab ", None])],
    "trim": [("trim(s)", ["Ab", None])],
    "ltrim": [("ltrim(s)", ["Ab ", None])],
    "rtrim": [("rtrim(s)", [" Ab", None])],
    "btrim": [("btrim(s)", ["Ab", None])],
    "lpad": [("lpad(t, 7, '12')", ["12hello", "121212x"]), ("lpad(t, 2, '-')", ["he", "-x"]), ("lpad('a', 3, '-')", ["--a", "--a"])],
    "rpad": [("rpad(t, 7, '12')", ["hello12", "x121212"]), ("rpad(s, 5, '-')", [" Ab -", None])],
    "repeat": [("repeat(t, 2)", ["hellohello", "xx"]), ("repeat(t, -1)", ["", ""])],
    "regexp_extract": [("regexp_extract(t, 'e(l(l))', 2)", ["l", None]), ("regexp_extract(t, '[(]|h(e)', 1)", ["e", None]), ("regexp_extract(t, '[[:digit:](]|h(e)', 1)", ["e", None]), (r"regexp_extract(t, '\Q(\E|h(e)', 1)", ["e", None]), ("regexp_extract(t, '\\w')", ["h", "x"]), ("regexp_extract(t, '')", ["", ""])],
    "regexp_substr": [("regexp_substr(t, 'l+')", ["ll", None])],
    "regexp_count": [("regexp_count(t, 'l')", [2, 0])],
    "locate": [("locate('l', t)", [3, 0]), ("locate('é', 'éé')", [1, 1]), ("locate('b', 'éb')", [2, 2]), ("locate('', s)", [1, None])],
    "instr": [("instr(s, 'b')", [3, None])],
    "startswith": [("startswith(t, 'he')", [True, False])],
    "endswith": [("endswith(t, 'x')", [False, True])],
    "reverse": [("reverse(t)", ["olleh", "x"])],
    "char_length": [("char_length(t)", [5, 1]), ("char_length('日本')", [2, 2])],
    "length": [("length(s)", [4, None])],
    "concat": [("concat(t, '-', i)", ["hello-7", "x--7"]), ("t || s", ["hello Ab ", None]), ("concat(d, '')", ["2.50", "-1.25"])],
    "concat_ws": [("concat_ws('/', t, s)", ["hello/ Ab ", "x"]), ("concat_ws('/', s, s)", [" Ab / Ab ", ""]), ("concat_ws('/', null, null)", ["", ""])],
    "substring": [("substring(t, 2, 3)", ["ell", ""]), ("substring(t, -3)", ["llo", ""]), ("substring(t, -3, 2)", ["ll", ""]), ("substring(t, -4)", ["ello", ""])],
    "substr": [("substr(t, 3)", ["llo", ""])],
    "left": [("left(t, 2)", ["he", "x"])],
    "right": [("right(t, 2)", ["lo", "x"]), ("right(t, 0)", ["", ""])],
    "replace": [("replace(t, 'l', 'L')", ["heLLo", "x"])],
    "regexp_replace": [("regexp_replace(t, '[aeiou]', '_')", ["h_ll_", "x"])],
    "regexp_like": [("regexp_like(t, '^h')", [True, False])],
    "md5": [("md5(t)", [hashlib.md5(b"hello").hexdigest(), hashlib.md5(b"x").hexdigest()])],
    "sha256": [("sha256(t)", [SHA, hashlib.sha256(b"x").hexdigest()]), ("sha256(s)", [hashlib.sha256(b" Ab ").hexdigest(), None])],
    "abs": [("abs(i)", [7, 7])],
    "sign": [("sign(i)", [1, -1])],
    "ceil": [("ceil(f)", [3.0, -2.0]), ("ceil(i)", [7, -7])],
    "floor": [("floor(f)", [2.0, -3.0]), ("floor(i)", [7, -7])],
    "round": [("round(1.005, 2)", [1.01, 1.01]), ("round(f / 100, 2)", [0.03, -0.03]), ("round(1e300 * f, 2)", [2.5e300, -2.5e300]), ("round(f)", [3.0, -3.0]), ("round(d, 1)", [Decimal("2.50"), Decimal("-1.30")])],
    "mod": [("mod(i, 4)", [3, -3]), ("i % z", [1, None])],
    "power": [("power(i, 2)", [49.0, 49.0])],
    "sqrt": [("sqrt(49)", [7.0, 7.0])],
    "greatest": [("greatest(i, 5)", [7, 5]), ("greatest(n, 1)", [None, 3])],
    "least": [("least(i, 5)", [5, -7])],
    "coalesce": [("coalesce(n, i)", [7, 3])],
    "ifnull": [("ifnull(s, '-')", [" Ab ", "-"])],
    "nullif": [("nullif(t, 'x')", ["hello", None])],
    "if": [("if(i > 0, 'up', 'down')", ["up", "down"]), ("if(n > 1, 1, 0)", [0, 1])],
    "year": [("year(ts)", [2026, None]), ("year(text_time)", [2026, 1969])],
    "quarter": [("quarter(day)", [1, 4])],
    "month": [("month(ts)", [1, None])],
    "day": [("day(day)", [31, 31])],
    "hour": [("hour(ts)", [12, None])],
    "minute": [("minute(ts)", [34, None])],
    "second": [("second(ts)", [56, None])],
    "date_format": [("date_format(ts, 'yyyy-MM')", ["2026-01", None]), ("date_format(now(), 'HH')", ["12", "12"])],
    "to_date": [("to_date(text_time)", [dt.date(2026, 1, 31), dt.date(1969, 12, 31)]), ("to_date('31.1.26', 'dd.M.yy')", [dt.date(2026, 1, 31)] * 2)],
    "to_timestamp": [("to_timestamp(text_time) = ts", [True, None]), ("to_timestamp(text_time, 'yyyy-MM-dd HH:mm:ss') = ts", [True, None]), ("to_timestamp(nullif(num, 'oops'), 'dd')", [dt.datetime(1970, 1, 12), None]), ("to_timestamp('12:00:05.25', 'HH:mm:ss.SS')", [dt.datetime(1970, 1, 1, 12, 0, 5, 250_000)] * 2)],
    "timestampdiff": [("timestampdiff(day, day, ts)", [0, None]), ("timestampdiff(MONTH, '2025-12-31 12:34:57', ts)", [0, None]), ("timestampdiff(year, day, '2026-12-31')", [0, 57]), ("timestampdiff(month, '2026-03-30 00:00:00', day)", [-1, -674]), ("timestampdiff(month, '2026-01-30 12:00:00', '2026-02-28 13:00:00')", [0, 0])],
    "timestamp_diff": [("timestamp_diff('hour', '2026-01-31 10:00:00', ts)", [2, None])],
    "unix_timestamp": [("unix_timestamp(day)", [1_769_817_600, -86_400]), ("unix_timestamp()", [1_769_860_805] * 2), ("unix_timestamp(text_time) = unix_timestamp(ts)", [True, None]), ("unix_timestamp('31.1.26', 'dd.M.yy')", [1_769_817_600] * 2)],
    "from_unixtime": [("from_unixtime(i)", ["1970-01-01 00:00:07", "1969-12-31 23:59:53"]), ("from_unixtime(n, 'dd.MM')", [None, "01.01"]), ("from_unixtime(0)", ["1970-01-01 00:00:00"] * 2)],
    "timestampadd": [("timestampadd(day, 1, day)", [dt.datetime(2026, 2, 1), dt.datetime(1970, 1, 1)]), ("timestampadd(month, 1, day)", [dt.datetime(2026, 2, 28), dt.datetime(1970, 1, 31)]), ("timestampadd(year, -2, '2024-02-29 01:02:03')", [dt.datetime(2022, 2, 28, 1, 2, 3)] * 2), ("timestampadd(SECOND, n, day)", [None, dt.datetime(1969, 12, 31, 0, 0, 3)]), ("timestampadd(MONTH, n, day)", [None, dt.datetime(1970, 3, 31)]), ("timestampadd('quarter', 1, ts) = timestampadd(month, 3, ts)", [True, None])],
    "localtime": [("localtime", [dt.time(12, 0, 5)] * 2)],
    "current_time": [("current_time = localtime", [True, True])],
    "ceiling": [("ceiling(f)", [3.0, -2.0])],
    "now": [("unix_timestamp(now())", [1_769_860_805] * 2)],
    "current_timestamp": [("current_timestamp = now()", [True, True])],
    "localtimestamp": [("localtimestamp = now()", [True, True])],
    "current_date": [("current_date", [dt.date(2026, 1, 31)] * 2)],
}  # fmt: skip
OPERATORS: list[tuple[str, list[Any]]] = [
    ("i + 1", [8, -6]),
    ("i - z * 2", [3, -7]),
    ("-i", [-7, 7]),
    ("(i + 1) * 2", [16, -12]),
    ("i / z", [3.5, None]),
    ("d * 2", [Decimal("5.00"), Decimal("-2.50")]),
    ("d + f", [5.0, -3.75]),
    ("i = 7", [True, False]),
    ("i <> 7", [False, True]),
    ("i != 7 or n is null", [True, True]),
    ("i >= -7 and i < 7", [False, True]),
    ("b = 1", [True, False]),
    ("b", [True, False]),
    ("not b", [False, True]),
    ("n is not null", [False, True]),
    ("n > 1", [None, True]),
    ("n > 1 and i > 0", [None, False]),
    ("i between 1 and 10", [True, False]),
    ("i not between 1 and 10", [False, True]),
    ("t in ('x', 'y')", [False, True]),
    ("i not in (7)", [False, True]),
    ("t like 'h%o'", [True, False]),
    ("n > 1 is true", [False, True]),
    ("n > 1 is not true", [True, False]),
    ("n > 1 is false", [False, False]),
    ("n > 5 is not false", [True, False]),
    ("substring(t from 2 for 3)", ["ell", ""]),
    ("substring(t from 4)", ["lo", ""]),
    ("cast(i as varchar)", ["7", "-7"]),
    ("cast(t as varchar(5))", ["hello", "x"]),
    ("t not like '_'", [True, False]),
    ("ts > '2026-01-01'", [True, None]),
    ("'2026-01-31' = day", [True, False]),
    ("case when i > 0 then 'a' when i < -100 then 'b' else t end", ["a", "x"]),
    ("case t when 'x' then 1 end", [None, 1]),
    ("cast(i as string)", ["7", "-7"]),
    ("cast('3' as int) + 1", [4, 4]),
    ("cast(d as decimal(10, 1))", [Decimal("2.5"), Decimal("-1.3")]),
    ('`i` + "z"', [9, -7]),
    ("orders.i", [7, -7]),
    ("'it''s'", ["it's", "it's"]),
    ("null", [None, None]),
    ("1.5e1", [15.0, 15.0]),
    ("trim(both ' ' from s)", ["Ab", None]),
    ("trim(both from s)", ["Ab", None]),
    ("trim(leading ' ' from s)", ["Ab ", None]),
    ("trim(trailing 'ox' from t)", ["hell", ""]),
    ("trim('h' from t)", ["ello", "x"]),
    ("trim(t, 'o')", ["hell", "x"]),
    ("try_cast(num as int)", [12, None]),
    ("cast(f as int)", [2, -2]),
    ("cast(d as bigint)", [2, -1]),
    ("try_cast(d * 1000000000 as int)", [None, -1250000000]),
    ("n is distinct from 3", [True, False]),
    ("n is not distinct from null", [True, False]),
    ("n > 1 is unknown", [True, False]),
    ("n > 1 is not unknown", [False, True]),
    ("'5%' like '5!%' escape '!'", [True, True]),
    ("'5x' like '5!%' escape '!'", [False, False]),
    ("'5!' like '5!!' escape '!'", [True, True]),
    ("'5%' like '5%%' escape '%'", [True, True]),
    ("'5x' like '5%%' escape '%'", [False, False]),
    (r"'a\b' like 'a\b' escape '!'", [True, True]),
    (r"'a\b' like 'a\b%' escape '!'", [True, True]),
    (r"'a\b' like '%a\b' escape '!'", [True, True]),
    (r"'x\b' like '_\\b%'", [True, True]),
    ("'5%\nx\n' like '5\\%%x_'", [True, True]),
    ("'5%\n' like '5\\%'", [False, False]),
    ("t rlike '^h'", [True, False]),
    ("t not rlike '^h'", [False, True]),
    ("case i when 1, 7 then 'x' end", ["x", None]),
    ("t like null", [None, None]),
    ("t not like null", [None, None]),
    ("cast(-9223372036854775807 - 1 as bigint) % cast(z - 3 as bigint)", [0, -2]),
]
FLINK_CDC: list[tuple[str, list[Any]]] = [
    ("i / z", [3, None]),
    ("i / 2", [3, -3]),
    ("d / 2", [1.25, -0.625]),
    ("n <> 3", [True, False]),
    ("n = 3", [False, True]),
    ("not (n = 3)", [True, False]),
    ("n not in (3, 4)", [True, False]),
    ("n not between 2 and 4", [True, False]),
    ("n is null or n > 5", [True, False]),
    ("t like 'l'", [True, False]),
    ("t like '^.$'", [False, True]),
    ("t not like 'l+'", [False, True]),
    ("t like 'h%' escape '!'", [True, False]),
    ("trim(concat('\t', t, '\n '))", ["hello", "x"]),
]


@pytest.mark.parametrize(("text", "wanted"), [case for cases in BY_FUNCTION.values() for case in cases], ids=str)
def test_a_function_returns_its_documented_result(text: str, wanted: list[Any]) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize("text", [text for cases in BY_FUNCTION.values() for text, _ in cases])
def test_rows_of_nulls_do_not_change_the_values_of_other_rows(text: str) -> None:
    columns = {name: pa.concat_arrays([column, pa.nulls(2, column.type), column]) for name, column in COLUMNS.items()}
    found = evaluated(parse_expression(text), columns, Moment(NOW, 6), Misfits()).to_pylist()
    assert len(found) == 6
    assert found[:2] == found[4:] == value(text)


def test_a_number_that_the_common_type_of_branches_cannot_contain_is_an_error() -> None:
    large, small = Decimal(44) * 10**19, Decimal("1.5")
    columns = {"a": pa.array([large], pa.decimal128(38, 0)), "b": pa.array([small], pa.decimal128(38, 18))}
    with pytest.raises(DecodeError, match="a number is out of the range of its type"):
        evaluated(parse_expression("case when b > 0 then a else b end"), columns, Moment(NOW, 2), Misfits())


def test_each_function_has_a_test() -> None:
    assert set(BY_FUNCTION) == set(FUNCTIONS)


@pytest.mark.parametrize(("text", "wanted"), FLINK_CDC, ids=str)
def test_an_expression_of_a_flink_cdc_file_has_the_result_of_flink_cdc(text: str, wanted: list[Any]) -> None:
    tree = parse_expression(text, "flink-cdc")
    assert evaluated(tree, COLUMNS, Moment(NOW, 2), Misfits()).to_pylist() == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t like 'h%'", "reads the pattern of LIKE as a regular expression"),
        ("t like 'h' escape '12'", "a constant pattern and one character"),
        ("n is 3", "IS must be followed by NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM"),
        ("extract(year from ts)", "EXTRACT"),
    ],
)
def test_what_flink_cdc_has_and_is_refused_names_the_way_out(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_expression(text, "flink-cdc")


@pytest.mark.parametrize(("text", "wanted"), OPERATORS, ids=str)
def test_an_operator_returns_the_result_of_sql(text: str, wanted: list[Any]) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    "text",
    [r"t like 'a\b%'", r"t like 'a_\b'", r"t like '\h'", "t like '!h%' escape '!'", r"t like 'h!\%' escape '!'"],
)
def test_an_escape_character_before_an_ordinary_one_is_refused_as_by_spark(text: str) -> None:
    with pytest.raises(ConfigError, match="followed by neither %, _ nor itself"):
        value(text)


@pytest.mark.parametrize("text", ["t like 'h\\'", "t like '%\\'", "t like 'h!' escape '!'", "t like 'h\\\\\\'"])
def test_a_pattern_that_ends_with_its_escape_character_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="ends with its escape character"):
        value(text)


def test_an_invalid_cast_is_reported_with_its_row() -> None:
    misfits = Misfits()
    assert value("cast(num as int)", misfits) == [12, None]
    assert list(misfits.reasons) == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uppper(s)", "did you mean upper?"),
        ("to_date(t, 'EEEE')", "is not supported for parsing"),
        ("to_date(t, 'ddMMdd')", "twice"),
        ("timestampdiff('moon', ts, ts)", "is not a unit of time"),
        ("upper()", "upper(text)"),
        ("uuid()", "when a batch is read again"),
        ("trim(both ' ')", "'from' is missing"),
        ("timestampadd(day, f, ts)", "an integer number"),
        ("i +", "is incomplete"),
        ("i + + ) 1", "unexpected"),
        ("i $ 1", "'$ 1' is unexpected"),
        ("case i end", "CASE without WHEN"),
        ("i not 7", "BETWEEN, IN, LIKE or RLIKE"),
        ("t > 1", "cannot be compared"),
        ("t + 1", "cast strings to numbers first"),
        ("nobody", "column 'nobody' does not exist"),
        ("regexp_extract(t, '(')", "missing )"),
        ("concat(t, 'a', replace(t, s, 'b'))", "must be a constant string"),
    ],
)
def test_an_impossible_expression_is_reported(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        value(text)
    assert message in str(caught.value)


def test_an_overflow_is_an_error() -> None:
    with pytest.raises(DecodeError, match="out of the range of its type"):
        value("i + 9223372036854775807")
    with pytest.raises(DecodeError, match="out of the range of its type"):
        evaluated(
            parse_expression("(-9223372036854775807 - 1) / (z - 3)", "flink-cdc"), COLUMNS, Moment(NOW, 2), Misfits()
        )


@pytest.mark.parametrize("text", ["round(x, 1)", "round(x)", "ceil(x)", "floor(0 - x)"])
@pytest.mark.parametrize("beside", [None, Decimal("1.25")])
def test_a_decimal_that_has_another_digit_when_it_is_rounded_is_an_error(text: str, beside: Decimal | None) -> None:
    columns = {"x": pa.array([Decimal("9.95"), beside], pa.decimal128(3, 2))}
    text = text.replace("0 - x", "cast(0 - x as decimal(3, 2))")
    with pytest.raises(DecodeError, match="out of the range of its type"):
        evaluated(parse_expression(text), columns, Moment(NOW, 2), Misfits())
    wider = {"x": columns["x"].cast(pa.decimal128(4, 2))}
    found = evaluated(parse_expression(text.replace("3, 2", "4, 2")), wider, Moment(NOW, 2), Misfits()).to_pylist()
    assert abs(found[0]) == 10
    assert (found[1] is None) == (beside is None)


NUMBERS = [
    pa.int32(),
    pa.int64(),
    *(pa.decimal128(p, s) for p, s in ((1, 0), (10, 2), (19, 0), (21, 2), (38, 2), (38, 30))),
]


@pytest.mark.parametrize("sign", ["+", "-", "*"])
@pytest.mark.parametrize("left", NUMBERS, ids=str)
@pytest.mark.parametrize("right", NUMBERS, ids=str)
def test_decimals_are_computed_exactly_in_types_of_any_precision(
    sign: str, left: pa.DataType, right: pa.DataType
) -> None:
    given = {"x": pa.array([Decimal(7), None]).cast(left), "y": pa.array([Decimal(3), Decimal(3)]).cast(right)}
    wanted = {"+": Decimal(10), "-": Decimal(4), "*": Decimal(21)}[sign]
    node = parse_expression(f"x {sign} y")
    if (
        sign == "*"
        and pa.types.is_decimal(left)
        and pa.types.is_decimal(right)
        and left.precision + right.precision > 75
    ):
        with pytest.raises(ConfigError, match="would need more than 38 digits"):
            evaluated(node, given, Moment(NOW, 2), Misfits())
    else:
        assert evaluated(node, given, Moment(NOW, 2), Misfits()).to_pylist() == [wanted, None]


def test_a_decimal_beyond_38_digits_is_an_error() -> None:
    given = {"x": pa.array([Decimal("9" * 36 + ".99")], pa.decimal128(38, 2))}
    with pytest.raises(DecodeError, match="out of the range of its type"):
        evaluated(parse_expression("x * 1000"), given, Moment(NOW, 1), Misfits())
    assert evaluated(parse_expression("coalesce(x, 0) * 0"), given, Moment(NOW, 1), Misfits()).to_pylist() == [0]


def test_a_text_that_does_not_match_the_pattern_is_reported() -> None:
    with pytest.raises(DecodeError, match="'oops' is not a time of the form 'dd'"):
        value("to_date(num, 'dd')")


def test_a_projection_names_each_column_once() -> None:
    assert [item.name for item in parse_projection("i plain, t || s joined, upper(t) `U`")] == ["plain", "joined", "U"]
    items = parse_projection("*, upper(t) as `T`, i, i * 2 AS twice")
    assert [item.name for item in items] == ["*", "T", "i", "twice"]
    assert items[0] == Item("*")
    assert items[2] == Item("i", ColumnReference("i"))
    assert items[3].value is not None
    assert list(columns_of(items[3].value)) == ["i"]
    for wrong in ("i, i", "i * 2", "i as a, i as a", "i,"):
        with pytest.raises(ConfigError):
            parse_projection(wrong)


def test_local_times_are_those_of_the_zone() -> None:
    """As Flink CDC takes them: now() is an instant, the local functions follow pipeline.local-time-zone."""

    def there(text: str) -> Any:
        return evaluated(parse_expression(text), COLUMNS, Moment(NOW, 1, "Asia/Tokyo"), Misfits()).to_pylist()[0]

    utc = dt.datetime.fromtimestamp(NOW / 1000, dt.UTC).replace(tzinfo=None)
    local = utc + dt.timedelta(hours=9)
    assert (there("localtimestamp"), there("now()")) == (local, utc)
    assert (there("localtime"), there("current_date")) == (local.time().replace(microsecond=0), local.date())
    assert there("from_unixtime(0)") == "1970-01-01 09:00:00"
    assert there("unix_timestamp('1970-01-01 09:00:00')") == 0
    assert there("unix_timestamp(from_unixtime(1769860805))") == 1769860805
    assert there("unix_timestamp()") == NOW // 1000


def test_seconds_of_summers_after_2037_are_shown_by_the_rules_of_the_zone() -> None:
    """Arrow's tables of zones end with 2037. `unix_timestamp` of the text was another number then."""
    summer = 2_225_188_800  # 2040-07-06 12:00:00 UTC

    def there(text: str) -> Any:
        return evaluated(parse_expression(text), COLUMNS, Moment(NOW, 1, "Europe/Berlin"), Misfits()).to_pylist()[0]

    assert there(f"from_unixtime({summer})") == "2040-07-06 14:00:00"
    assert there(f"unix_timestamp(from_unixtime({summer}))") == summer
    assert there(f"from_unixtime(i + {summer})") == "2040-07-06 14:00:07"


def test_local_times_that_clocks_show_never_or_twice_are_those_of_java() -> None:
    texts = pa.array(["2024-03-31 02:30:00", "2024-10-27 02:30:00"])
    found = evaluated(
        parse_expression("unix_timestamp(t)"), {"t": texts}, Moment(NOW, 2, "Europe/Berlin"), Misfits()
    ).to_pylist()
    assert found == [1711848600, 1729989000]  # 01:30 and 00:30 UTC
    constant = parse_expression("unix_timestamp('2024-03-31 02:30:00')")
    assert evaluated(constant, {}, Moment(NOW, 1, "Europe/Berlin"), Misfits()).to_pylist() == [1711848600]
    times = texts.cast(pa.timestamp("s")).cast(pa.timestamp("s", "UTC"))
    assert instants_of(texts, times, "Europe/Berlin").cast(pa.int64()).to_pylist() == found


def test_a_time_outside_of_its_type_is_an_error() -> None:
    with pytest.raises(DecodeError, match="out of the range of its type"):
        value("timestampadd(day, 9223372036854775, ts)")


def test_integers_are_bigints_or_refused() -> None:
    assert value("i > -9223372036854775808") == [True, True]
    assert value("9223372036854775807 = i") == [False, False]
    assert value("i < CAST('99999999999999999999' AS DECIMAL(20, 0))") == [True, True]
    for text in (
        "i > 9223372036854775808",
        "i IN (1, 99999999999999999999)",
        "i > -9223372036854775809",
        "i - 9223372036854775808",
    ):
        with pytest.raises(ConfigError, match="is not a BIGINT") as refused:
            parse_expression(text)
        assert "AS DECIMAL" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "text", ["price / 1", "price + 0.0 * d", "coalesce(price, d)", "power(price, 1)", "if(price = d, d, null)"]
)
def test_decimals_beside_doubles_are_the_closest_ones(text: str) -> None:
    """Arrow takes the next double for one of seven: `price = d` was false for them."""
    digits = [Decimal(number).scaleb(-2) for number in range(5_840_000, 5_840_500)]
    doubles = [float(value) for value in digits]
    columns = {"price": pa.array(digits, pa.decimal128(10, 2)), "d": pa.array(doubles)}
    assert evaluated(parse_expression(text), columns, Moment(NOW, 2), Misfits()).to_pylist() == doubles
