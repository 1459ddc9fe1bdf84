"""CALL with the arguments of Paimon's guides for Flink and Spark: each works, or is refused with the way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.procedures.procedure_calls import PROCEDURES
from tests.invariants import check_invariants

VISITS = """
CREATE DATABASE app; USE app;
CREATE TABLE visits (id INT, n INT, dt STRING, PRIMARY KEY (dt, id) NOT ENFORCED) PARTITIONED BY (dt)
    WITH ('bucket' = '1', 'changelog-producer' = 'input');
INSERT INTO visits VALUES (1, 1, '2024-01-01');
INSERT INTO visits VALUES (2, 2, '2024-01-02');
INSERT INTO visits VALUES (3, 3, '2024-01-03');
CALL sys.create_tag('visits', 'kept', 2);
CREATE TABLE new_visits (visit INT, n INT, dt STRING, PRIMARY KEY (visit) NOT ENFORCED);
INSERT INTO new_visits VALUES (1, 5, '2024-01-01'), (9, 9, '2024-01-01');
"""
NEVER = "1724404318750"  # before the first snapshot, in epoch milliseconds


class App:
    """A warehouse with a table of visits in three snapshots, and a tag of the second."""

    def __init__(self, folder: Path) -> None:
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog, database="app" if folder.exists() else None)

    def run(self, script: str) -> pa.Table:
        return list(self.interpreter.run(script))[-1]

    def results(self, call: str) -> list[str]:
        return list(self.run(f"CALL sys.{call}").column("result").to_pylist())

    @property
    def visits(self) -> penstock.Table:
        return self.catalog.table("app.visits")

    def rows(self) -> list[tuple[int, int]]:
        found = self.visits.scan().to_arrow().sort_by("id")
        return list(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("procedures") / "warehouse"
    App(folder).run(VISITS)
    return folder


@pytest.fixture
def app(made: Path, tmp_path: Path) -> App:
    return App(Path(shutil.copytree(made, tmp_path / "warehouse")))


@pytest.mark.parametrize(
    ("call", "results"),
    [
        # Tags and branches.
        ("create_tag('app.visits', 't', 2, '1 d')", ["tag t of snapshot 2"]),
        ("create_tag(`table` => 'app.visits', tag => 't', snapshot_id => cast(1 as bigint))", ["tag t of snapshot 1"]),
        ("create_tag(table => 'visits', tag => 't', snapshot => 1)", ["tag t of snapshot 1"]),
        ("create_tag('visits', 't')", ["tag t of snapshot 3"]),
        (f"create_tag_from_timestamp('app.visits', 't', {NEVER}, '1 d')", ["tag t of snapshot 1"]),
        (
            f"create_tag_from_timestamp(`table` => 'visits', tag => 't', `timestamp` => {NEVER})",
            ["tag t of snapshot 1"],
        ),
        ("replace_tag('app.visits', 'kept', 3, '1 d')", ["tag kept of snapshot 3"]),
        ("replace_tag(table => 'visits', tag => 'kept', snapshot_id => 1)", ["tag kept of snapshot 1"]),
        ("rename_tag(table => 'visits', tagName => 'kept', targetTagName => 'u')", ["OK"]),
        ("rename_tag(table => 'visits', tag => 'kept', target_tag => 'u')", ["OK"]),
        ("delete_tag('app.visits', 'kept')", ["deleted tag kept"]),
        ("expire_tags(table => 'visits', older_than => '2024-09-06 11:00:00')", ["no tag has expired"]),
        ("create_branch('app.visits', 'b', 'kept')", ["branch b"]),
        ("create_branch(table => 'visits', branch => 'b', ignoreIfExists => true)", ["branch b"]),
        # Compaction.
        ("compact('app.visits', '', '', '', 'sink.parallelism=4')", ["snapshot 4"]),
        ("compact(`table` => 'visits', partitions => 'dt=2024-01-01;dt=2024-01-02')", ["snapshot 4"]),
        ("compact(`table` => 'visits', `where` => 'dt > ''2024-01-02''')", ["snapshot 4"]),
        # Spark takes "..." for a text.
        ('compact(table => "visits", where => "dt > \'2024-01-02\'")', ["snapshot 4"]),
        ("compact(table => 'visits', partition_idle_time => '10 d')", ["nothing to compact"]),
        ("compact(table => 'visits', compact_strategy => 'minor')", ["nothing to compact"]),
        ("compact_database()", ["app.new_visits: snapshot 2", "app.visits: snapshot 4"]),
        (
            "compact_database(including_databases => 'app|x', mode => 'divided', including_tables => 'app.*visits', "
            "excluding_tables => '.*new.*', table_options => 'sink.parallelism=4', compact_strategy => 'full')",
            ["app.visits: snapshot 4"],
        ),
        ("compact_database('nowhere')", ["no table matches the selection"]),
        ("compact_manifest(`table` => 'app.visits')", ["snapshot 4"]),
        ("rescale(`table` => 'visits', bucket_num => 4, `partition` => 'dt=2024-01-03')", ["snapshot 4"]),
        ("rescale(table => 'visits', bucket_num => 4, partitions => 'dt=2024-01-03')", ["snapshot 4"]),
        ("rescale('visits', 4, 'dt=2024-01-09')", ["no rows to rewrite"]),
        ("delete_tag('visits', 'none,kept')", ["there is no tag 'none'", "deleted tag kept"]),
        # Snapshots and consumers.
        ("rollback_to('app.visits', 2)", ["snapshot 2", "removed snapshot 3"]),
        ("rollback_to('app.visits', 'kept')", ["snapshot 2", "removed snapshot 3"]),
        ("rollback_to(`table` => 'visits', snapshot_id => 3)", ["snapshot 3"]),
        ("rollback_to(`table` => 'visits', tag => 'kept')", ["snapshot 2", "removed snapshot 3"]),
        ("rollback(table => 'visits', version => 'kept')", ["snapshot 2", "removed snapshot 3"]),
        ("rollback(table => 'visits', snapshot => 1)", ["snapshot 1", "removed snapshots 2 to 3; removed tags kept"]),
        ("rollback_to_timestamp(table => 'visits', timestamp => '2999-01-01 00:00:00')", ["snapshot 3"]),
        ("expire_snapshots('app.visits', 2, 1)", ["expired 1 snapshot, deleted 5 files"]),
        (
            "expire_snapshots(table => 'visits', retain_max => 1, options => 'snapshot.expire.limit=1')",
            ["expired 1 snapshot, deleted 5 files"],
        ),
        ("expire_changelogs(table => 'visits', delete_all => true)", ["expired 0 changelogs, deleted 0 files"]),
        ("reset_consumer('app.visits', 'me', 2)", ["me continues at snapshot 2"]),
        ("reset_consumer(table => 'visits', consumerId => 'me', nextSnapshotId => 2)", ["me continues at snapshot 2"]),
        ("clear_consumers(table => 'visits', includingConsumers => 'my.*')", ["no consumer matches"]),
        # Partitions and files.
        (
            "expire_partitions(`table` => 'visits', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd', "
            "timestamp_pattern => '$dt', expire_strategy => 'values-time', max_expires => 1)",
            ["dt=2024-01-01"],
        ),
        ("expire_partitions('app.visits', '1000000 d', 'yyyy-MM-dd', '$dt')", ["no partition has expired"]),
        ("drop_partition('visits', 'dt=2024-01-01')", ["snapshot 4"]),
        ("drop_partition('visits', 'dt=2024-01-09')", ["snapshot 4", "these partitions had no rows"]),
        ("mark_partition_done(table => 'visits', partitions => 'dt=2024-01-03')", ["dt=2024-01-03"]),
        ("remove_orphan_files(`table` => 'app.*', older_than => '2023-10-31 12:00:00', dry_run => true)", []),
        ("remove_orphan_files(table => 'visits', parallelism => '5', mode => 'local')", []),
        ("remove_unexisting_files(`table` => 'app.visits', dry_run => true, parallelism => 2)", []),
        ("remove_unexisting_manifests('app.visits')", []),
        ("analyze('app.visits', 'id,n')", ["snapshot 4"]),
    ],
)
def test_a_call_of_the_guides_returns_what_it_did(app: App, call: str, results: list[str]) -> None:
    assert app.results(call) == results
    check_invariants(app.visits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("create_tag(table => 'visits', tag => 't', snapshot => 1, snapshot_id => 1)", "is set twice"),
        ("create_tag('visits', 't', tag => 'u')", "is set twice"),
        ("create_tag('visits', 't', 'x')", "must be an integer"),
        ("create_tag('visits', '')", "needs the argument 'tag'"),
        (f"create_tag_from_watermark('visits', 't', {NEVER}, '1 d')", "no snapshot has reached watermark"),
        ("trigger_tag_automatic_creation('visits')", "set tag.automatic-creation"),
        ("delete_branch('visits', 'none')", "there is no branch 'none'"),
        ("compact('visits$files')", "is a system table"),
        ("compact('visits', compact_strategy => 'most')", "choices are full, minor"),
        ("compact('visits', order_strategy => 'sideways')", "choices are none, order, zorder, hilbert"),
        ("compact('visits', order_by => 'id')", "order_by needs an order_strategy"),
        ("compact('visits', partitions => 'dt=x', `where` => 'dt = 1')", "cannot be used together"),
        ("compact('visits', partitions => 'x')", "is not a partition"),
        ("compact('visits', options => 'x')", "write key=value"),
        ("compact('visits', order_strategy => 'order', compact_strategy => 'minor')", "a sort does not support"),
        ("compact_database(including_tables => '(')", "is not a regular expression"),
        ("compact_database(mode => 'x')", "choices are combined, divided"),
        ("remove_orphan_files('visits', dry_run => 'maybe')", "must be true or false"),
        ("rollback('visits')", "a rollback needs one target"),
        ("rollback_to('visits', snapshot_id => 'x')", "must be an integer, not 'x'"),
        ("rollback('visits', snapshot => '1.5')", "must be an integer, not '1.5'"),
        ("rollback_to('visits', 'none')", "there is no tag 'none'"),
        ("rollback_to('visits', 'kept', 2)", "a rollback needs one target"),
        (f"rollback_to_timestamp('visits', {NEVER})", "there is no snapshot as old as"),
        (f"rollback_to_watermark('visits', {NEVER})", "no snapshot has a watermark of at most"),
        ("merge_into('visits')", "needs the argument 'source_table'"),
        ("merge_into(target_table => 'visits', source_table => 's', merge_condition => 'true')", "needs an action"),
        ("purge_files('visits')", "TRUNCATE TABLE, then CALL sys.expire_snapshots"),
        ("remove_unexisting_files(table => 'visits', dry_run = true)", "write it as  name => value"),
        ("rewrite_file_index('visits')", "order_strategy => 'zorder'"),
        ("init_file_based_privilege('secret')", "rights on folders"),
        ("migrate_file('hive', 'a.b', 'app.visits', true)", "INSERT INTO it a SELECT"),
        ("migrate_table(connector => 'hive', source_table => 'a.b')", "INSERT INTO it a SELECT"),
    ],
)
def test_a_call_that_is_refused_changes_nothing(app: App, call: str, message: str) -> None:
    with pytest.raises(PenstockError) as caught:
        app.results(call)
    assert message in f"{caught.value}"
    assert app.rows() == [(1, 1), (2, 2), (3, 3)]
    assert app.visits.tags == {"kept": 2}


@pytest.mark.slow
def test_a_rollback_to_a_watermark_finds_the_newest_snapshot_below_it(app: App) -> None:
    for number, watermark in ((4, 1000), (5, 2000), (6, 3000)):
        with app.visits.writer("job") as writer:
            writer.write(pa.table({"id": [number], "n": [number], "dt": ["2024-01-04"]}))
            writer.commit(number, watermark=watermark)
    assert app.results("rollback_to_watermark(table => 'visits', watermark => 2500)")[0] == "snapshot 5"
    assert app.results("create_tag_from_watermark('visits', 'w', 1500, '1 d')") == ["tag w of snapshot 5"]


def test_tags_that_are_due_are_created(app: App) -> None:
    app.run("ALTER TABLE visits SET ('tag.automatic-creation' = 'process-time', 'tag.creation-period' = 'daily')")
    assert len(app.results("trigger_tag_automatic_creation('app.visits')")) == 1
    assert app.results("trigger_tag_automatic_creation('app.visits')") == ["no tag is due"]


@pytest.mark.slow
def test_merge_into_reads_the_clauses_from_its_arguments(app: App) -> None:
    # The columns of the source have other names than those of the table: `*` takes them by place.
    by_place = (
        "merge_into('app.visits','','','app.new_visits','visits.id = new_visits.visit','','n=visits.n+20','','*','')"
    )
    assert app.results(by_place) == ["snapshot 4"]
    assert app.rows() == [(1, 21), (2, 2), (3, 3), (9, 9)]
    app.results(
        "merge_into(target_table => 'visits', target_alias => 'v', source_sqls => 'CREATE TEMP VIEW a AS SELECT 1 AS id"
        "; CREATE TEMP VIEW b AS SELECT * FROM a', source_table => 'b', merge_condition => 'v.id = b.id', "
        "matched_delete_condition => 'TRUE', not_matched_by_source_upsert_condition => 'v.id = 9', "
        "not_matched_by_source_upsert_setting => 'n = 0')"
    )
    assert app.rows() == [(2, 2), (3, 3), (9, 0)]
    with pytest.raises(PenstockError, match="a source with the columns of the table"):
        app.results(
            "merge_into('visits', source_sqls => 'CREATE TEMP VIEW a AS SELECT 1 AS id', source_table => 'a', "
            "merge_condition => 'visits.id = a.id', not_matched_insert_values => '*')"
        )


@pytest.mark.slow
def test_arguments_without_effect_are_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    app.results("rescale('visits', 2, 'dt=2024-01-03', sink_parallelism => 4)")
    assert "event=argument_without_effect procedure=rescale argument=sink_parallelism" in caplog.text


def test_no_name_of_a_procedure_has_two_meanings() -> None:
    for name, procedure in PROCEDURES.items():
        names = [name.lower() for name in procedure.names]
        assert len(set(names)) == len(names), name
        assert set(procedure.aliases.values()) <= set(procedure.parameters), name
        assert procedure.required <= len(procedure.parameters), name


def test_the_guide_lists_every_procedure() -> None:
    guide = (Path(__file__).resolve().parents[5] / "docs" / "sql.md").read_text(encoding="utf-8")
    listed = guide.split("## Procedures", 1)[1].split("## Streams", 1)[0]
    assert [name for name in PROCEDURES if f"`{name}`" not in listed] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CALL other.sys.compact('shop.orders')", "'other' is not the current catalog"),
        ("CALL a.b.sys.compact('shop.orders')", "procedures are in the database sys"),
        ("CALL sys.compact(table => 'shop.orders', table => 'shop.orders')", "'table' is set twice"),
        (
            "CALL sys.expire_partitions(table => 'shop.days', expiration_time => '1 d', timestamp_pattern => '$day')",
            "names 'day', which is not a partition column",
        ),
        (
            "CALL sys.expire_partitions(table => 'shop.days', expiration_time => '1 d', "
            "timestamp_pattern => '1 potato')",
            "names no partition column",
        ),
        (
            "CALL sys.expire_partitions(table => 'shop.days', expiration_time => '1 d', timestamp_pattern => '$dt 1')",
            "'2020-01-01 1' is not of the form yyyy-MM-dd",
        ),
        (
            "CALL sys.expire_partitions(table => 'shop.days', expiration_time => '1 d', "
            "timestamp_formatter => 'yyyyMMdd')",
            "'2020-01-01' is not of the form yyyyMMdd",
        ),
        ("CALL sys.compact(table => 'shop.keyed', buckets => '0-2')", "the table has no bucket 2"),
        ("CALL sys.compact(table => 'shop.keyed', buckets => '0-99999999999')", "the table has no bucket 2"),
        ("CALL sys.compact(table => 'shop.keyed', buckets => '1-0')", "is not a list of buckets"),
        ("CALL sys.compact(table => 'shop.days', buckets => '1')", "the table has no bucket 1"),
        ("CALL sys.remove_orphan_files('shop.orders', '', true, 4, 'distributed', 1)", "has 5 parameters"),
    ],
)
def test_calls_that_would_do_something_else_are_refused(tmp_path: Path, statement: str, reason: str) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    with Interpreter(catalog) as interpreter:
        list(interpreter.run("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT)"))
        list(interpreter.run("CREATE TABLE shop.days (id INT, dt STRING) PARTITIONED BY (dt)"))
        list(interpreter.run("INSERT INTO shop.days VALUES (1, '2020-01-01')"))
        keyed = "CREATE TABLE shop.keyed (id INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '2')"
        list(interpreter.run(f"{keyed}; INSERT INTO shop.keyed VALUES (1)"))
        with pytest.raises(ConfigError, match=reason.replace("$", r"\$")) as refused:
            list(interpreter.run(statement))
        assert refused.value.facts["line"] == 1
        assert catalog.table("shop.days").count() == 1


def test_a_call_by_place_has_the_parameters_of_flink(tmp_path: Path) -> None:
    with Interpreter(penstock.Catalog(tmp_path, {"local.sync": "false"})) as interpreter:
        list(interpreter.run("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT)"))
        *_, found = interpreter.run("CALL sys.remove_orphan_files('shop.orders', '', true, 4, 'distributed')")
        assert found.to_pylist() == []
        *_, found = interpreter.run("CALL sys.reset_consumer('shop.orders', 'me')")
        assert found.to_pylist() == [{"result": "there is no consumer 'me'"}]


@pytest.mark.parametrize(
    "statement",
    [
        "CALL sys.drop_partition('visits', 'dt=2024-01-01,dt=2024-01-02')",
        "CALL sys.compact(table => 'visits', partitions => 'dt=2024-01-01,dt=2024-01-02')",
        "CALL sys.mark_partition_done('visits', 'dt=2024-01-01,dt=2024-01-02')",
        "CALL sys.compact(table => 'visits', options => 'target-file-size=1 mb,target-file-size=2 mb')",
        "INSERT OVERWRITE visits PARTITION (dt = '2024-01-01', dt = '2024-01-02') VALUES (1, 1)",
    ],
)
def test_a_column_or_an_option_that_is_set_twice_is_refused(app: App, statement: str) -> None:
    before = app.rows()
    with pytest.raises(ConfigError, match="twice") as caught:
        app.run(statement)
    assert caught.value.hint
    assert app.rows() == before
    assert app.visits.latest_snapshot.id == 3


@pytest.mark.parametrize("procedure", ["expire_snapshots", "expire_changelogs"])
@pytest.mark.parametrize("most", [0, -1])
def test_a_round_that_could_expire_nothing_is_refused(app: App, procedure: str, most: int) -> None:
    arguments = f"retain_max => 1, retain_min => 1, max_deletes => {most}"
    with pytest.raises(ConfigError, match="max_deletes"):
        app.run(f"CALL sys.{procedure}(table => 'visits', {arguments})")
    assert app.visits.latest_snapshot.id == 3


def test_defaults_of_columns_are_set_by_a_call(tmp_path: Path) -> None:
    """The guide of Paimon for Flink sets them so, as Flink has no statement for it."""
    interpreter = Interpreter(Catalog(tmp_path, {"local.sync": "false"}))
    script = """CREATE DATABASE d;
        CREATE TABLE d.t (a BIGINT, b STRING, c INT, tags ARRAY<STRING>);
        CALL sys.alter_column_default_value('d.t', 'b', 'my_value');
        CALL sys.alter_column_default_value(`table` => 'd.t', `column` => 'c', default_value => '5');
        INSERT INTO d.t (a) VALUES (1); SELECT * FROM d.t"""
    *_, found = interpreter.run(script)
    assert found.to_pylist() == [{"a": 1, "b": "my_value", "c": 5, "tags": None}]
    for column, text, type_ in (("c", "many", "INT"), ("tags", "[tag1, tag2]", "ARRAY<STRING>")):
        with pytest.raises(ConfigError, match=f"cannot be the default of {type_}"):
            list(interpreter.run(f"CALL sys.alter_column_default_value('d.t', '{column}', '{text}')"))


@pytest.mark.parametrize("name", ["create_global_index", "vector_search", "compact_chain_table", "reassign_row_id"])
def test_newer_procedures_of_paimon_are_refused_by_name(app: App, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}' is not supported") as refused:
        app.results(f"{name}(`table` => 'app.visits')")
    assert refused.value.hint
