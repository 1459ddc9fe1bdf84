"""Lookup joins in streaming SQL: the rows of one snapshot per dimension and batch, retries, jobs that are killed."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.operations.write import TableWriter
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.session import Session
from penstock.table.sql.session_options import STREAMING
from penstock.table.sql.streams.stream_lookups import StreamLookups
from tests.invariants import check_invariants
from tests.unit.table.sql.streams.test_stream_jobs import SOURCE, Killed, Lake, Row, kinds
from tests.waiting import StopAtFirstWait

pytestmark = pytest.mark.slow

RETRY = (
    "'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '%s', 'max-attempts' = '%d'"
)
NOW = "FOR SYSTEM_TIME AS OF PROCTIME()"
ALL = "/*+ OPTIONS('scan.snapshot-id' = '1') */"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "warehouse")
    lake.batch(
        "CREATE TABLE u (k INT, name STRING, region INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2');"
        "CREATE TABLE r (region INT, label STRING, PRIMARY KEY (region) NOT ENFORCED) WITH ('bucket' = '1');"
        "CREATE TABLE log (id INT, g INT, v INT)"
    )
    return lake


def test_columns_of_several_dimensions_are_looked_up_one_from_the_other(lake: Lake) -> None:
    lake.batch("INSERT INTO u VALUES (1, 'a', 7), (2, 'b', 8); INSERT INTO r VALUES (7, 'north')")
    lake.batch("INSERT INTO s VALUES (10, 1, 0), (11, 2, 0), (12, 3, 0), (13, NULL, 0)")
    query = (
        f"SELECT s.id, UPPER(u.name) AS name, label FROM s LEFT JOIN u {NOW} ON s.g = u.k "
        f"LEFT JOIN r {NOW} AS r ON u.region = r.region"
    )
    rows = lake.stream(query)
    assert sorted(tuple(row.values()) for row in rows) == [
        ("+I", 10, "A", "north"),
        ("+I", 11, "B", None),
        ("+I", 12, None, None),
        ("+I", 13, None, None),
    ]
    inner = lake.stream(query.replace("LEFT JOIN", "JOIN"))
    assert kinds(inner, "id", "label") == [("+I", 10, "north")]


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that DuckDB runs for streams."""
    run: list[str] = []
    original = Session.prepared_batches

    def recorded(session: Session, prepared: str) -> Iterator[pa.RecordBatch]:
        run.append(prepared)
        return original(session, prepared)

    monkeypatch.setattr(Session, "prepared_batches", recorded)
    return run


@pytest.mark.parametrize(
    ("compared", "computed"),
    [
        ("s.g = u.k", "s.g + 0 = u.k"),
        ("u.K = G", "u.k = g + 0"),
        ("s.word = u.name AND s.g = u.k AND u.region = s.g", "s.word = u.name AND s.g + 0 = u.k AND u.region = s.g"),
    ],
)
def test_keys_that_are_columns_of_the_stream_are_found_without_a_query(
    lake: Lake, queries: list[str], compared: str, computed: str
) -> None:
    """The rows are those of the same keys as expressions, for which DuckDB is asked."""
    draw = random.Random(5)
    lake.batch("ALTER TABLE s ADD (word STRING); INSERT INTO u VALUES (1, 'a', 1), (2, 'b', 3), (3, 'a', 3)")
    for number in range(6):
        g, word = draw.choice([1, 2, 3, 4, "NULL"]), draw.choice(["NULL", "'a'", "'b'", "'c'"])
        row = f"INSERT INTO s VALUES ({number % 4}, {g}, 0, {word}), ({number + 20}, 3, 0, 'a')"
        lake.batch(row if number % 3 else f"DELETE FROM s WHERE id = {number % 4}; {row}")
    for join in ("LEFT JOIN", "JOIN"):
        query = f"SELECT s.id, s.g, s.word, u.k FROM s {ALL} {join} u {NOW} ON "
        queries.clear()
        rows = sorted(map(repr, lake.stream(query + compared)))
        assert queries
        assert not [text for text in queries if "GROUP BY" in text]
        assert rows == sorted(map(repr, lake.stream(query + computed)))
        assert [text for text in queries if "GROUP BY" in text]


def test_keys_that_need_no_dimension_are_found_without_joining_one(lake: Lake, queries: list[str]) -> None:
    lake.batch("INSERT INTO u VALUES (1, 'a', 7), (2, 'b', 7); INSERT INTO r VALUES (1, 'one'), (3, 'three')")
    lake.batch("INSERT INTO log VALUES (10, 7, 0), (11, 8, 2)")
    query = (
        f"SELECT log.id, u.name, r.label FROM log {{}}JOIN u {NOW} ON u.region = log.g "
        f"LEFT JOIN r {NOW} AS r ON r.region = log.v + 1"
    )
    matches = {("+I", 10, "a", "one"), ("+I", 10, "b", "one")}
    assert set(kinds(lake.stream(query.format("LEFT ")), "id", "name", "label")) == {
        *matches,
        ("+I", 11, None, "three"),
    }
    assert not [text for text in queries if "GROUP BY" in text and "JOIN" in text]
    queries.clear()
    # An INNER JOIN leaves rows out, whose keys need not be looked up.
    assert set(kinds(lake.stream(query.format("")), "id", "name", "label")) == matches
    assert [text for text in queries if "GROUP BY" in text and "JOIN" in text]


def test_the_newest_partition_of_a_dimension_is_looked_up(lake: Lake) -> None:
    lake.batch(
        "CREATE TABLE days (dt STRING, k INT, name STRING, PRIMARY KEY (dt, k) NOT ENFORCED) PARTITIONED BY (dt) "
        "WITH ('bucket' = '1'); "
        "INSERT INTO days VALUES ('2024-05-06', 1, 'old'), ('2024-05-06', 2, 'b'), ('2024-05-07', 1, 'new'); "
        "INSERT INTO s VALUES (10, 1, 0), (11, 2, 0)"
    )
    query = f"SELECT s.id, name FROM s LEFT JOIN days /*+ OPTIONS('scan.partitions' = '%s') */ {NOW} AS d ON d.k = s.g"
    assert kinds(lake.stream(query % "max_pt()"), "id", "name") == [("+I", 10, "new"), ("+I", 11, None)]
    assert kinds(lake.stream(query % "dt=2024-05-06"), "id", "name") == [("+I", 10, "old"), ("+I", 11, "b")]


@pytest.mark.parametrize(
    "stream",
    [
        "s AS o JOIN u FOR SYSTEM_TIME AS OF o.proc_time AS d",
        "s o JOIN d.`u` FOR SYSTEM_TIME AS OF `o`.`proctime` AS d",
        "(SELECT *, PROCTIME() AS p FROM s WHERE v = 0) AS o INNER JOIN u FOR SYSTEM_TIME AS OF o.p AS d",
    ],
)
def test_the_processing_time_is_a_function_or_a_column(lake: Lake, stream: str) -> None:
    lake.batch("INSERT INTO u VALUES (1, 'a', 7); INSERT INTO s VALUES (10, 1, 0)")
    rows = lake.stream(f"SELECT o.id, d.* FROM {stream} ON d.k = o.g")
    assert rows == [{"op": "+I", "id": 10, "k": 1, "name": "a", "region": 7}]


def test_deletes_and_old_rows_remain_when_the_dimension_has_changed(lake: Lake) -> None:
    lake.batch("CREATE TABLE t (id INT, v INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')")
    insert = f"INSERT INTO t SELECT id, v, name FROM s JOIN u {NOW} AS d ON g = d.k AND d.region > 0 WHERE v < 9"
    lake.batch("INSERT INTO u VALUES (1, 'a', 1), (2, 'b', 1); INSERT INTO s VALUES (1, 1, 0), (2, 2, 0), (3, 1, 0)")
    lake.stream(insert)
    assert [tuple(row.values()) for row in lake.batch("SELECT * FROM t ORDER BY id")] == [
        (1, 0, "a"),
        (2, 0, "b"),
        (3, 0, "a"),
    ]
    lake.batch("DELETE FROM u WHERE k = 1; UPDATE u SET region = 0 WHERE k = 2")
    lake.batch("DELETE FROM s WHERE id = 1; UPDATE s SET v = 1 WHERE id > 1")
    lake.stream(insert)
    assert lake.batch("SELECT * FROM t") == []


def test_new_rows_have_all_their_matches(lake: Lake) -> None:
    lake.batch(
        "INSERT INTO u VALUES (1, 'a', 7), (2, 'b', 7), (3, 'c', 8); INSERT INTO log VALUES (1, 7, 0), (2, 9, 0)"
    )
    rows = lake.stream(
        f"SELECT id, name FROM log LEFT JOIN u {NOW} AS d ON d.region = log.g WHERE name <> 'b' OR id = 2"
    )
    assert sorted(map(repr, kinds(rows, "id", "name"))) == ["('+I', 1, 'a')", "('+I', 2, None)"]


def test_a_batch_waits_for_missing_rows_and_records_the_snapshots(lake: Lake) -> None:
    lake.batch(
        "CREATE TABLE t (id INT, name STRING); INSERT INTO u VALUES (1, 'a', 7); INSERT INTO log VALUES (1, 1, 0)"
    )
    lake.batch("INSERT INTO log VALUES (2, 2, 0)")
    late = Thread(target=lambda: lake.batch("INSERT INTO u VALUES (2, 'b', 7)"))
    late.start()
    hint = f"/*+ LOOKUP('table'='x', {RETRY % ('50ms', 200)}) */"
    query = f"INSERT INTO t SELECT {hint} log.id, x.name FROM log {ALL} LEFT JOIN u {NOW} AS x ON log.g = x.k"
    lake.stream(query)
    late.join()
    assert [tuple(row.values()) for row in lake.batch("SELECT * FROM t ORDER BY id")] == [(1, "a"), (2, "b")]
    recorded = [snapshot.properties.get("penstock.lookup.d.u") for snapshot in lake.catalog.table("d.t").snapshots]
    assert recorded[-1] in {"2", "1-2"}
    lake.batch("INSERT INTO log VALUES (3, 3, 0)")
    lake.stream(query.replace("'200'", "'2'"))  # no attempt finds the row
    assert lake.batch("SELECT name FROM t WHERE id = 3") == [{"name": None}]


def test_each_batch_sees_the_newest_rows_of_a_dimension(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.batch("INSERT INTO u VALUES (1, 'a', 7); INSERT INTO log VALUES (1, 1, 0)")
    lake.batch("INSERT INTO log VALUES (2, 2, 0)")
    begin, begun = StreamLookups.begin, []

    def after_a_change(lookups: StreamLookups, batch: int) -> None:
        if begun:
            lake.batch("INSERT INTO u VALUES (2, 'b', 7)")
        begun.append(batch)
        begin(lookups, batch)

    monkeypatch.setattr(StreamLookups, "begin", after_a_change)
    joins = f"JOIN u {NOW} AS x ON g = x.k JOIN u {NOW} AS y ON g = y.k"
    rows = lake.stream(f"SELECT id, x.name, y.region FROM log {ALL} {joins}")
    assert kinds(rows, "id", "name", "region") == [("+I", 1, "a", 7), ("+I", 2, "b", 7)]
    assert len(begun) == 2


def test_a_stream_that_waits_can_be_stopped(lake: Lake) -> None:
    lake.batch("CREATE TABLE t (id INT, name STRING); INSERT INTO log VALUES (1, 1, 0)")
    hint = f"/*+ LOOKUP('table'='x', {RETRY % ('1h', 3)}) */"
    query = f"INSERT INTO t SELECT {hint} log.id, x.name FROM log LEFT JOIN u {NOW} AS x ON log.g = x.k"
    with Interpreter(lake.catalog, "d", stop=StopAtFirstWait()) as interpreter:
        tables = interpreter.run(f"{STREAMING}; {query}")
        assert next(tables).num_rows == 1
        rows = [row for table in tables for row in table.to_pylist()]
    assert [row["written"] for row in rows if "written" in row] == [0]
    assert lake.batch("SELECT * FROM t") == []


def test_deletes_do_not_wait_for_a_match(lake: Lake) -> None:
    hint = f"/*+ LOOKUP('table'='x', {RETRY % ('1h', 3)}) */"
    lake.batch("INSERT INTO s VALUES (1, 1, 0); DELETE FROM s WHERE id = 1")
    start = "/*+ OPTIONS('scan.snapshot-id' = '2') */"
    rows = lake.stream(f"SELECT {hint} s.id, x.name FROM s {start} JOIN u {NOW} AS x ON s.g = x.k")
    assert kinds(rows, "id", "name") == [("-D", 1, None)]


def test_a_batch_that_is_run_again_uses_the_same_snapshot(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.batch("CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')")
    lake.batch("INSERT INTO u VALUES (1, 'a', 7); INSERT INTO s VALUES (1, 1, 0)")
    write = TableWriter.write
    calls: list[int] = []

    def meanwhile(writer: TableWriter, *rows: object) -> None:
        write(writer, *rows)
        if writer.user.startswith("sql:") and not calls:
            calls.append(1)
            lake.batch("UPDATE u SET name = 'newer'; INSERT INTO t VALUES (9, 'x')")  # conflicts with the job

    monkeypatch.setattr(TableWriter, "write", meanwhile)
    lake.stream(f"INSERT INTO t SELECT s.id, u.name FROM s JOIN u {NOW} ON s.g = u.k")
    assert calls
    assert lake.batch("SELECT * FROM t ORDER BY id") == [{"id": 1, "name": "a"}, {"id": 9, "name": "x"}]
    assert lake.catalog.table("d.t").snapshots[-1].properties["penstock.lookup.d.u"] == "1"


def test_a_query_with_another_dimension_is_another_query(lake: Lake) -> None:
    lake.batch("CREATE TABLE t (id INT, name STRING); CREATE TABLE w LIKE u; INSERT INTO log VALUES (1, 1, 0)")
    insert = f"INSERT INTO t SELECT log.id, x.name FROM log LEFT JOIN u {NOW} AS x ON log.g = x.k"
    lake.stream(insert)
    with pytest.raises(ConfigError, match="another query"):
        lake.stream(insert.replace("JOIN u ", "JOIN w "))


@pytest.mark.parametrize("seed", range(2))
def test_each_commit_has_the_rows_of_the_snapshots_that_it_names(
    lake: Lake, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    producer = ["lookup", "input"][seed]
    lake.batch(f"DROP TABLE s; CREATE TABLE s ({SOURCE}) WITH ('bucket' = '2', 'changelog-producer' = '{producer}')")
    for name in ("left_t", "inner_t"):
        lake.batch(
            f"CREATE TABLE {name} (id INT, g INT, name STRING, label STRING, PRIMARY KEY (id) NOT ENFORCED) "
            "WITH ('bucket' = '2')"
        )
    lake.batch("CREATE TABLE many (id INT, name STRING)")
    on = f"u {NOW} AS d ON o.g = d.k LEFT JOIN r {NOW} AS r ON d.region = r.region"
    columns = "SELECT o.id, o.g, d.name, r.label FROM s AS o"
    inserts = (
        f"INSERT INTO left_t {columns} LEFT JOIN {on}; INSERT INTO inner_t {columns} JOIN {on};"
        f"INSERT INTO many SELECT o.id, d.name FROM log {ALL} AS o JOIN u {NOW} AS d ON d.region = o.g"
    )
    commit = TableWriter.commit

    def killing(writer: TableWriter, identifier: int | None = None, **settings: object) -> object:
        kill = dice.random() if identifier is not None else 1
        if kill < 0.15:
            raise Killed
        done = commit(writer, identifier, **settings)  # type: ignore[arg-type]  # as they came
        if kill < 0.3:
            raise Killed
        return done

    kills = 0
    lake.batch(
        "INSERT INTO s VALUES (0, 0, 5), (1, 1, 7); INSERT INTO u VALUES (0, 'x', 0); INSERT INTO log VALUES (0, 0, 0)"
    )
    lake.stream(f"BEGIN STATEMENT SET; {inserts}; END")  # so that the model knows the rows that each job begins with
    monkeypatch.setattr(TableWriter, "commit", killing)
    for _ in range(5):
        for _ in range(2):
            lake.batch(_change(dice))
        try:
            lake.stream(f"BEGIN STATEMENT SET; {inserts}; END")
        except Killed:
            kills += 1
    monkeypatch.undo()
    lake.stream(f"BEGIN STATEMENT SET; {inserts}; END")
    assert kills
    commits = check_joins(lake, "left_t", inner=False) + check_joins(lake, "inner_t", inner=True) + check_matches(lake)
    assert commits > 8
    assert lake.batch("SELECT count(*) AS n FROM left_t") == lake.batch("SELECT count(*) AS n FROM s")


def _change(dice: random.Random) -> str:
    rows = ", ".join(f"({dice.randrange(8)}, {dice.randrange(5)}, {dice.randrange(10)})" for _ in range(3))
    return dice.choice(
        [
            f"INSERT INTO s VALUES {rows}; INSERT INTO log VALUES {rows}",
            f"INSERT INTO s VALUES {rows}; INSERT INTO u VALUES ({dice.randrange(5)}, 'n{dice.randrange(99)}', 2)",
            f"UPDATE s SET g = (g + 1) % 5 WHERE id % 2 = {dice.randrange(2)}",
            f"DELETE FROM s WHERE id = {dice.randrange(8)}; DELETE FROM u WHERE k = {dice.randrange(5)}",
            f"INSERT INTO r VALUES ({dice.randrange(3)}, 'l{dice.randrange(99)}'); DELETE FROM u WHERE k = 3",
        ]
    )


def _known(lake: Lake, table: str, properties: dict[str, str], key: str) -> dict[object, list[Row]]:
    found: dict[object, list[Row]] = defaultdict(list)
    snapshot = int(properties[f"penstock.lookup.d.{table}"])
    if snapshot:
        for row in lake.catalog.table(f"d.{table}").scan(snapshot=snapshot).to_arrow().to_pylist():
            found[row[key]].append(row)
    return found


def _source_changes(lake: Lake, source: str, snapshot: int, *, first: bool) -> list[Row]:
    table = lake.catalog.table(f"d.{source}")
    if first:
        return [{"rowkind": "+I", **row} for row in table.scan(snapshot=snapshot).to_arrow().to_pylist()]
    return [row for item in table.follow(snapshot, until=snapshot) for row in item.rows.to_pylist()]


def check_joins(lake: Lake, target: str, *, inner: bool) -> int:
    """Apply each commit to a model, and compare; return the number of commits."""
    table, model, commits = lake.catalog.table(f"d.{target}"), dict[object, tuple[object, ...]](), 0
    check_invariants(table)
    seen: set[int] = set()
    for snapshot in table.snapshots:
        if "penstock.lookup.d.u" not in snapshot.properties or snapshot.commit_identifier in seen:
            continue
        first, commits = not seen, commits + 1
        seen.add(snapshot.commit_identifier)
        users, regions = (
            _known(lake, *of)
            for of in (("u", dict(snapshot.properties), "k"), ("r", dict(snapshot.properties), "region"))
        )
        for row in _source_changes(lake, "s", snapshot.commit_identifier, first=first):
            if row["rowkind"] in {"-U", "-D"}:
                model.pop(row["id"], None)
                continue
            [user] = users.get(row["g"], [None])
            [region] = regions.get(user and user["region"], [None])
            model.pop(row["id"], None)
            if user or not inner:
                model[row["id"]] = (row["id"], row["g"], user and user["name"], region and region["label"])
        rows = table.scan(snapshot=snapshot.id).to_arrow().to_pylist()
        assert sorted((tuple(row.values()) for row in rows), key=repr) == sorted(model.values(), key=repr), snapshot.id
    return commits


def check_matches(lake: Lake) -> int:
    table, wanted, commits = lake.catalog.table("d.many"), [], 0
    for snapshot in table.snapshots:
        if "penstock.lookup.d.u" in snapshot.properties:
            users = _known(lake, "u", dict(snapshot.properties), "region")
            for row in _source_changes(lake, "log", snapshot.commit_identifier, first=False):
                wanted += [(row["id"], user["name"]) for user in users[row["g"]]]
            commits += 1
    assert sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) == sorted(wanted)
    return commits
