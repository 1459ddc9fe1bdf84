"""Deleting by condition, other bucket numbers, clones, merges, SQL: what they change, and when they give way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.table.catalog.clone import clone_table
from penstock.table.commit.attempt import commit_snapshot
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.meta.snapshot import CommitKind
from penstock.table.meta.store import TableMissing
from penstock.table.operations import changed_files
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.write import TableWriter
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import Travel
from penstock.table.sql.dml.merge_into import MergeSource, delete_by_query, merge_into
from penstock.table.sql.dml.merge_query import Clause
from penstock.table.sql.queries.session import Session
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("price", "DECIMAL(10, 2)")]


def add(table: penstock.Table, *values: tuple[object, ...]) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def append_table(folder: Path, vectors: str = "false", options: Mapping[str, str] | None = None) -> penstock.Table:
    vectors_option = {"bucket": "-1", "deletion-vectors.enabled": vectors}
    table = new_table(folder, keys=(), options={**vectors_option, **(options or {})})
    add(table, (1, "a", None), (2, "b", None), (3, "c", None))
    add(table, (4, "d", None), (2, "again", Decimal("2.50")))
    return table


@pytest.mark.parametrize("where", [pc.field("id") == 2, "`id` = 2", "id in (2, 7) and name is not null"])
def test_rows_are_deleted_by_an_expression_or_by_sql(tmp_path: Path, where: pc.Expression | str) -> None:
    table = new_table(tmp_path)
    add(table, (1, "a", None), (2, "b", Decimal("1.25")), (3, "c", None))
    assert len(table.delete(where)) == 1
    assert content(table) == [(1, "a", None), (3, "c", None)]
    assert table.delete(where) == []
    check_invariants(table)


@pytest.mark.parametrize(("option", "value"), [("scan.snapshot-id", "1"), ("incremental-between", "0,1")])
def test_rows_of_the_newest_snapshot_are_deleted(tmp_path: Path, option: str, value: str) -> None:
    """The table has an option that makes its reads return an old snapshot."""
    table = new_table(tmp_path, options={option: value})
    add(table, (1, "old", None), (2, "b", None))
    add(table, (1, "new", None))
    assert table.delete("name = 'old'") == []
    assert len(table.delete("name = 'new'")) == 1
    newest = replace(Scan.of(table.store), travel=Travel(), between=None)
    assert newest.to_arrow()["id"].to_pylist() == [2]


def test_null_conditions_delete_nothing(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    assert len(table.delete(pc.field("amount") > Decimal("2.00"))) == 1
    assert len(content(table)) == 4


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"merge-engine": "first-row"}, "does not support batch delete"),
        ({"merge-engine": "partial-update"}, "does not support batch delete"),
        ({"ignore-delete": "true"}, "ignores -D"),
    ],
)
def test_a_table_that_ignores_deletes_refuses_them(tmp_path: Path, options: dict[str, str], refusal: str) -> None:
    table = new_table(tmp_path, options=options)
    with pytest.raises(ConfigError, match=refusal):
        table.delete("id = 1")


def test_partial_updates_delete_if_configured(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, options={"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    )
    add(table, (1, "a", None), (2, "b", None))
    table.delete("id = 1")
    assert content(table) == [(2, "b", None)]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_without_keys_files_are_rewritten_or_marked(tmp_path: Path, vectors: str) -> None:
    table = append_table(tmp_path, vectors)
    before = {file["file_path"] for file in table.system("files").to_pylist()}
    [snapshot] = table.delete("id = 2")
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert content(table) == [(1, "a", None), (3, "c", None), (4, "d", None)]
    after = {file["file_path"] for file in table.system("files").to_pylist()}
    assert (before == after) == (vectors == "true")
    table.delete(pc.field("id") == 4)
    table.delete("id = 3")
    assert content(table) == [(1, "a", None)]
    assert content(table.refresh()) == [(1, "a", None)]
    check_invariants(table)


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_delete_is_retried_after_its_files_were_rewritten(
    tmp_path: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = append_table(tmp_path, vectors)
    real, other = commit_snapshot, [True]

    def land(*given: object) -> object:
        if other.pop() if other else False:
            table.delete("id = 1")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(changed_files, "commit_snapshot", land)
    table.delete("id = 2")
    assert content(table) == [(3, "c", None), (4, "d", None)]
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []
    check_invariants(table)


def test_a_compaction_drops_deleted_rows_and_their_vectors(tmp_path: Path) -> None:
    table = append_table(tmp_path, "true")
    add(table, (5, "e", None))
    table.delete("id = 2")
    assert table.system("table_indexes").num_rows == 1
    assert table.compact(full=True)
    assert content(table) == [(1, "a", None), (3, "c", None), (4, "d", None), (5, "e", None)]
    assert table.system("table_indexes").num_rows == 0
    check_invariants(table)


def test_a_compaction_that_missed_a_delete_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = append_table(tmp_path, "true")
    add(table, (5, "e", None))
    real, late = BucketCompactor.compact, [True]

    def compact(self: BucketCompactor, *given: object, **named: object) -> object:
        result = real(self, *given, **named)  # type: ignore[arg-type]
        if late.pop() if late else False:
            table.delete("id = 2")
        return result

    monkeypatch.setattr(BucketCompactor, "compact", compact)
    table.compact(full=True)
    assert content(table) == [(1, "a", None), (3, "c", None), (4, "d", None), (5, "e", None)]
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []
    check_invariants(table)


def test_a_table_is_rescaled_and_then_written_with_the_new_number(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "1"})
    add(table, *((number, f"v{number}", None) for number in range(50)))
    before = content(table)
    catalog.alter_table("shop.t", [penstock.SetOption("bucket", "4")])
    table = catalog.table("shop.t")
    with pytest.raises(ConfigError, match="new bucket num 4"):
        add(table, (50, "x", None))
    [snapshot, *_] = table.rescale()
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert content(table) == before
    assert {file["bucket"] for file in table.system("files").to_pylist()} == {0, 1, 2, 3}
    add(table, (50, "x", None))
    check_invariants(table)


def test_columns_altered_after_the_last_commit_are_rescaled_as_they_are_now(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table(
        "shop.t", [("id", "INT NOT NULL"), ("a", "INT"), ("b", "STRING")], ["id"], options={"bucket": "1"}
    )
    add(table, (1, 10, "x"), (2, 20, "y"))
    renamed = [penstock.RenameColumn("a", "old"), penstock.AddColumn("a", "STRING"), penstock.DropColumn("b")]
    catalog.alter_table("shop.t", renamed)
    table = catalog.table("shop.t")
    table.rescale(3)
    assert sorted(content(table)) == [(1, 10, None), (2, 20, None)]
    assert table.schema.names == ["id", "old", "a"]


def test_one_partition_is_rescaled_alone(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",), options={"bucket": "1"})
    add(table, *((dt, number, number) for dt in ("a", "b") for number in range(20)))
    before = content(table)
    table.rescale(2, {"dt": "a"})
    assert content(table) == before
    places = {(file["partition"], file["bucket"]) for file in table.system("files").to_pylist()}
    assert places == {("{a}", 0), ("{a}", 1), ("{b}", 0)}
    check_invariants(table)


def test_a_rescale_is_retried_after_concurrent_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    add(table, (1, "a", None))
    prepare = OverwriteWriter.prepare

    def late(self: OverwriteWriter, identifier: int | None = None) -> object:
        add(table, (2, "late", None))
        return prepare(self, identifier)

    monkeypatch.setattr(OverwriteWriter, "prepare", late)
    with pytest.raises(CommitConflict, match="being rewritten"):
        table.rescale(2)
    assert content(table) == [(1, "a", None), (2, "late", None)]
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []


def test_a_rescale_refuses_rows_no_scan_shows_yet(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"merge-engine": "first-row", "write-only": "true"})
    add(table, (1, "a", None))
    with pytest.raises(ConfigError, match="only after a compaction"):
        table.rescale(4)


@pytest.fixture
def shop(tmp_path: Path) -> penstock.Catalog:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    t = catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "1"}, comment="things")
    add(t, (1, "one", Decimal("1.00")), (2, "two", None), (3, "three", None))
    s = catalog.create_table("shop.s", COLUMNS, ["id"], options={"bucket": "1"})
    add(s, (2, "zwei", Decimal("2.00")), (3, "drei", None), (4, "vier", None))
    return catalog


def test_a_clone_has_columns_options_and_rows_and_no_history(shop: penstock.Catalog, tmp_path: Path) -> None:
    elsewhere = penstock.Catalog(str(tmp_path / "elsewhere"))
    clone = clone_table(shop.table("shop.t"), elsewhere, "copies.t", where="id < 3", options={"bucket": "2"})
    assert (clone.schema, clone.primary_keys, clone.comment) == (shop.table("shop.t").schema, ["id"], "things")
    assert clone.options["bucket"] == "2"
    assert [row[0] for row in content(clone)] == [1, 2]
    assert len(clone.snapshots) == 1
    with pytest.raises(ConfigError, match="exists already"):
        clone_table(shop.table("shop.t"), elsewhere, "copies.t")
    clone_table(shop.table("shop.t"), elsewhere, "copies.t", into_existing=True)
    assert content(clone) == content(shop.table("shop.t"))


@pytest.mark.slow
def test_the_clone_of_a_table_with_postponed_buckets_shows_its_rows(shop: penstock.Catalog) -> None:
    source = shop.create_table("shop.later", COLUMNS, ["id"], options={"bucket": "-2"})
    add(source, (1, "one", None), (2, "two", None))
    source.compact()
    add(source, (3, "not seen yet", None))
    clone = clone_table(source, shop, "shop.copy")
    assert content(clone) == content(source) == [(1, "one", None), (2, "two", None)]
    clone_table(source, shop, "shop.copy", into_existing=True, where="id = 2")
    assert content(clone) == [(2, "two", None)]


def test_a_merge_updates_inserts_and_deletes_in_one_commit(shop: penstock.Catalog) -> None:
    clauses = [
        Clause("matched-upsert", "v = concat(s.v, '!'), price = s.price", "s.id = 2"),
        Clause("matched-delete", condition="s.id = 3"),
        Clause("not-matched-insert", "s.id, upper(s.v), 9.5"),
        Clause("not-matched-by-source-upsert", "v = 'alone'"),
    ]
    assert len(merge_into(shop, "shop.t", MergeSource("s"), "t.id = s.id", clauses)) == 1
    assert content(shop.table("shop.t")) == [
        (1, "alone", Decimal("1.00")),
        (2, "zwei!", Decimal("2.00")),
        (4, "VIER", Decimal("9.50")),
    ]
    check_invariants(shop.table("shop.t"))


def test_a_merge_accepts_arrow_rows_views_aliases_and_stars(shop: penstock.Catalog) -> None:
    given = pa.table(
        {"id": pa.array([2, 9], pa.int32()), "v": ["b", "n"], "price": pa.array([None, None], pa.float64())}
    )
    merge_into(
        shop,
        "shop.t",
        MergeSource("seen", ["CREATE TEMPORARY VIEW seen AS SELECT * FROM given WHERE id > 0"], {"given": given}),
        "T.id = seen.id",
        [Clause("matched-upsert", "*"), Clause("not-matched-insert", "*")],
        target_as="T",
    )
    assert [row[:2] for row in content(shop.table("shop.t"))] == [(1, "one"), (2, "b"), (3, "three"), (9, "n")]


@pytest.mark.slow
def test_a_merge_larger_than_its_memory_is_joined_on_disk(
    shop: penstock.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = pa.array(range(600_000), pa.int32())
    given = pa.table({"id": ids, "v": [f"{'long text ' * 8}{number}" for number in range(600_000)]})
    given = given.append_column("price", pa.nulls(len(ids), pa.decimal128(10, 2)))
    assert given.nbytes > 50_000_000
    clauses = [Clause("matched-upsert", "*"), Clause("not-matched-insert", "*")]
    limits = ["SET memory_limit = '40MB'", "SET preserve_insertion_order = false"]
    source = MergeSource("given", limits, {"given": given})
    merge_into(shop, "shop.t", source, "t.id = given.id", clauses, threads=1)
    assert shop.table("shop.t").scan().count() == 600_000
    assert not (tmp_path / ".tmp").exists()  # DuckDB's own place for what exceeds its memory


@pytest.mark.parametrize("source", ["shop.t", "t /*+ OPTIONS('scan.snapshot-id' = '1') */"])
def test_a_table_is_merged_with_itself_under_an_alias(shop: penstock.Catalog, source: str) -> None:
    clauses = [Clause("matched-upsert", "v = 'again'", "x.id = 2")]
    with pytest.raises(ConfigError, match="have the same name 't'") as refused:
        merge_into(shop, "shop.t", MergeSource(source), "t.id = t.id", clauses)
    assert "--target-as x" in str(refused.value.hint)
    merge_into(shop, "shop.t", MergeSource(source), "x.id = t.id", clauses, target_as="x")
    assert [row[1] for row in content(shop.table("shop.t"))] == ["one", "again", "three"]


def test_a_star_needs_a_source_with_a_name(shop: penstock.Catalog) -> None:
    with pytest.raises(ConfigError, match=r"\* needs a source with a name"):
        merge_into(shop, "shop.t", MergeSource("(SELECT * FROM s)"), "t.id = 7", [Clause("matched-upsert", "*")])


def test_a_merge_that_changes_nothing_creates_no_snapshot(shop: penstock.Catalog) -> None:
    assert (
        merge_into(
            shop, "shop.t", MergeSource("shop.s"), "shop.t.id = s.id", [Clause("matched-delete", condition="s.id = 9")]
        )
        == []
    )
    assert len(shop.table("shop.t").snapshots) == 1


@pytest.mark.parametrize(
    ("clauses", "refusal"),
    [
        ([Clause("matched-upsert", "id = 3")], "cannot be changed"),
        ([Clause("matched-upsert", "nowhere = 3")], "sets no column"),
        ([Clause("not-matched-insert", "s.id")], "1 values are inserted into 3 columns"),
        ([Clause("not-matched-by-source-upsert", "*")], "needs a source row"),
        ([Clause("matched-upsert", "*"), Clause("matched-delete", condition="true")], "a condition each"),
        ([Clause("not-matched-insert", "s.id, t.v, 1")], "cannot be parsed"),
        ([], "the merge has no actions"),
    ],
)
def test_an_invalid_merge_is_refused(shop: penstock.Catalog, clauses: list[Clause], refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        merge_into(shop, "shop.t", MergeSource("s"), "t.id = s.id", clauses)


@pytest.mark.parametrize(
    ("on", "clause", "shown"),
    [
        ("t.id = s.nope", Clause("matched-upsert", "v = s.v"), "merge condition: t.id = s.nope"),
        ("t.id = s.id", Clause("matched-upsert", "v = s.nope", "s.id > 1"), "matched-upsert: v = s.nope if s.id > 1"),
        ("t.id = s.id", Clause("matched-delete", None, "s.v = 1"), "matched-delete: if s.v = 1"),
    ],
)
def test_a_merge_that_fails_shows_its_own_words(shop: penstock.Catalog, on: str, clause: Clause, shown: str) -> None:
    with pytest.raises(ConfigError) as refused:
        merge_into(shop, "shop.t", MergeSource("s"), on, [clause])
    text = str(refused.value)
    assert shown in text
    assert "_penstock" not in text
    assert ("cannot be parsed" in text) == ("nope" in text), "a value is not the text"


def test_a_merge_without_its_source_table_says_which_is_missing(shop: penstock.Catalog) -> None:
    with pytest.raises(TableMissing, match=r"there is no table shop\.nope"):
        merge_into(shop, "shop.t", MergeSource("shop.nope"), "t.id = nope.id", [Clause("matched-upsert", "*")])


def test_two_source_rows_for_one_target_row_are_refused(shop: penstock.Catalog) -> None:
    with pytest.raises(ConfigError, match="several source rows"):
        merge_into(shop, "shop.t", MergeSource("s"), "t.id <= s.id", [Clause("matched-upsert", "v = s.v")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select v from shop.t where id = 2", ["two"]),
        ("select v from t where id = 1", ["one"]),
        ("select a.v from t a join shop.s as b on a.id = b.id order by a.id", ["two", "three"]),
        ("select t.v from t join s on t.id = s.id where s.price = 2", ["two"]),
        ("select v from `shop`.`t` where v = '`t`' or id = 3", ["three"]),
        ("select v from (select * from shop.t), (select 1) where id = 1", ["one"]),
        ("with x as (select v from shop.s) select max(v) as v from x", ["zwei"]),
        ("select commit_kind as v from shop.t$snapshots", ["APPEND", "APPEND"]),
        ('select tag_name as v from "t$tags"', ["first"]),
        ("select v from t for version as of 1 where id = 5", []),
        ("select t.v from t for version as of 'first' where t.id = 2", ["two"]),
        ("select v from shop.t version as of 2 as x where x.id = 5", ["five"]),
        ("select v from t /*+ OPTIONS('scan.snapshot-id'='1') */ where id >= 3", ["three"]),
        (
            "select n.v from t n left join t /*+ OPTIONS('scan.tag-name'='first') */ o using (id) where o.id is null",
            ["five"],
        ),
        ("select count(*)::varchar as v from t timestamp as of '2100-01-01 00:00:00'", ["4"]),
    ],
)
def test_sql_reads_tables_system_tables_and_the_past(shop: penstock.Catalog, sql: str, expected: list[str]) -> None:
    table = shop.table("shop.t")
    table.create_tag("first")
    add(table, (5, "five", None))
    with Session(shop, "shop") as session:
        assert session.query(sql)["v"].to_pylist() == expected


@pytest.mark.parametrize("verb", ["merge", "delete"])
@pytest.mark.parametrize(
    "options", [{"write-only": "true"}, {"deletion-vectors.enabled": "true", "write-only": "true"}]
)
def test_merges_and_deletes_by_a_query_do_not_replace_rows_that_they_did_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], verb: str
) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("shop")
    catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "1", **options})
    add(catalog.table("shop.t"), (1, "old", None))
    real, others = TableWriter.prepare, [(1, "new", None)]

    def prepared(writer: TableWriter, identifier: int | None = None) -> object:
        while others:
            add(catalog.table("shop.t"), others.pop())
        return real(writer, identifier)

    monkeypatch.setattr(TableWriter, "prepare", prepared)

    def run() -> None:
        if verb == "delete":
            delete_by_query(catalog, "shop.t", "v = 'old'")
        else:
            upsert = Clause("matched-upsert", "v = t.v || '!'")
            merge_into(catalog, "shop.t", MergeSource("(SELECT 1 AS id) AS s"), "t.id = s.id", [upsert])

    with pytest.raises(CommitConflict):
        run()
    run()
    catalog.table("shop.t").compact()
    assert [row[1] for row in content(catalog.table("shop.t"))] == ["new" if verb == "delete" else "new!"]


def test_rows_of_another_state_are_not_written_back(shop: penstock.Catalog) -> None:
    """The table has an option that makes its reads return an old snapshot."""
    add(shop.table("shop.t"), (1, "newest", None))
    shop.alter_table("shop.t", [penstock.SetOption("scan.snapshot-id", "1")])
    upsert = Clause("matched-upsert", "price = 7")
    with pytest.raises(ConfigError, match="changes the newest rows"):
        merge_into(shop, "shop.t", MergeSource("shop.s"), "t.id = s.id", [upsert])
    with pytest.raises(ConfigError, match="changes the newest rows"):
        delete_by_query(shop, "shop.t", "id IN (SELECT id FROM shop.s)")
    shop.alter_table("shop.t", [penstock.ResetOption("scan.snapshot-id")])
    assert (1, "newest", None) in content(shop.table("shop.t"))


def test_invalid_sql_is_reported_with_the_error_of_duckdb(shop: penstock.Catalog) -> None:
    with Session(shop) as session, pytest.raises(ConfigError, match="nowhere"):
        session.query("select * from shop.nowhere")


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_delete_detects_rewritten_files_without_history(
    tmp_path: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = append_table(tmp_path, vectors, {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    add(table, (5, "e", None))
    real, other = commit_snapshot, [True]

    def land(*given: object) -> object:
        if other.pop() if other else False:
            table.compact(full=True)
            add(table, (6, "f", None))
            table.analyze()
            table.expire_snapshots()
            assert len(table.snapshots) == 1
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(changed_files, "commit_snapshot", land)
    table.delete("id = 2")
    assert [row[0] for row in content(table)] == [1, 3, 4, 5, 6]
    check_invariants(table)


def test_a_rescale_detects_concurrent_rows_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true", **short})
    add(table, (1, "a", None))
    prepare = OverwriteWriter.prepare

    def late(self: OverwriteWriter, identifier: int | None = None) -> object:
        add(table, (2, "late", None))
        table.analyze()
        table.expire_snapshots()
        return prepare(self, identifier)

    monkeypatch.setattr(OverwriteWriter, "prepare", late)
    with pytest.raises(CommitConflict, match="being rewritten"):
        table.rescale(2)
    assert content(table) == [(1, "a", None), (2, "late", None)]


def test_a_rescale_accepts_commits_to_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    add(table, (1, "a", None))
    prepare = OverwriteWriter.prepare

    def late(self: OverwriteWriter, identifier: int | None = None) -> object:
        table.analyze()
        return prepare(self, identifier)

    monkeypatch.setattr(OverwriteWriter, "prepare", late)
    assert table.rescale(2)
    assert content(table) == [(1, "a", None)]
