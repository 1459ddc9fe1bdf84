"""Statements about tags in the words of Paimon's extension of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError

pytestmark = pytest.mark.slow


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    made = penstock.Catalog(tmp_path)
    made.create_database("s")
    run(made, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    return made


def run(catalog: penstock.Catalog, script: str) -> list[dict[str, object]]:
    return [dict(row) for row in penstock.sql(script, catalog.warehouse, database="s").to_pylist()]


def tags(catalog: penstock.Catalog) -> dict[object, object]:
    return {row["tag_name"]: row["snapshot_id"] for row in run(catalog, "SELECT * FROM t$tags")}


def test_tags_are_created_replaced_renamed_and_deleted(catalog: penstock.Catalog) -> None:
    run(catalog, "ALTER TABLE t CREATE TAG 'x' AS OF VERSION 1 RETAIN 7 DAYS")
    run(catalog, "ALTER TABLE s.t CREATE TAG IF NOT EXISTS x AS OF VERSION 2; ALTER TABLE t CREATE TAG `20240101`")
    assert tags(catalog) == {"x": 1, "20240101": 2}
    assert run(catalog, "SELECT time_retained FROM t$tags WHERE tag_name = 'x'") == [{"time_retained": "PT168H"}]
    run(
        catalog,
        "ALTER TABLE t CREATE OR REPLACE TAG x AS OF VERSION 2; ALTER TABLE t REPLACE TAG 20240101 AS OF VERSION 1",
    )
    run(catalog, "ALTER TABLE t CREATE OR REPLACE TAG z RETAIN 3 HOURS; ALTER TABLE t RENAME TAG x TO 'y'")
    assert tags(catalog) == {"y": 2, "20240101": 1, "z": 2}
    run(catalog, "ALTER TABLE t DELETE TAG 'y'; ALTER TABLE t DELETE TAG IF EXISTS y")
    assert run(catalog, "SHOW TAGS t") == [{"tag": "20240101"}, {"tag": "z"}]
    assert run(catalog, "SHOW TAGS t LIKE '2024*'") == [{"tag": "20240101"}]


def test_several_tags_are_deleted_by_their_list(catalog: penstock.Catalog) -> None:
    run(catalog, ";".join(f"ALTER TABLE t CREATE TAG `{name}`" for name in ("a", "b", "c", "d,e")))
    with pytest.raises(PenstockError, match="there is no tag 'x'"):
        run(catalog, "ALTER TABLE t DELETE TAG `a,x`")
    run(catalog, "ALTER TABLE t DELETE TAG `a, c`; ALTER TABLE t DELETE TAG IF EXISTS `x,d,e`")
    assert list(tags(catalog)) == ["b", "d,e"]
    run(catalog, "ALTER TABLE t DELETE TAG `d,e`; ALTER TABLE t DELETE TAG IF EXISTS `x,b`")
    assert not tags(catalog)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE TAG x", "there is no tag 'x'"),
        ("REPLACE TAG x AS OF VERSION 1", "x"),
        ("CREATE TAG x; ALTER TABLE t CREATE TAG x", "there is a tag 'x' already"),
        ("CREATE TAG x RETAIN 7 WEEKS", "a unit is expected"),
        ("CREATE TAG x AS OF VERSION one", "a whole number is expected"),
        ("CREATE TAG x FROM 3", "the statement should end here"),
        ("RENAME TAG x 'y'", "TO is expected"),
    ],
)
def test_statements_about_tags_are_refused_with_their_place(
    catalog: penstock.Catalog, statement: str, message: str
) -> None:
    with pytest.raises(PenstockError, match=message) as caught:
        run(catalog, f"ALTER TABLE t {statement}")
    assert "line: 1" in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "way_out"),
    [
        ("ALTER TABLE t DELETE TAG x", "IF EXISTS"),
        ("ALTER TABLE t REPLACE TAG x", "tags are monday"),
        ("ALTER TABLE t RENAME TAG munday TO y", "did you mean 'monday'?"),
        ("ALTER TABLE t CREATE TAG monday", "replace the tag"),
        ("SELECT * FROM t VERSION AS OF 'x'", "tags are monday"),
        ("SELECT * FROM t /*+ OPTIONS('scan.tag-name' = 'x') */", "tags are monday"),
        ("CALL sys.rollback_to('s.t', 'x')", "tags are monday"),
        ("CALL sys.create_branch('s.t', 'b', 'x')", "tags are monday"),
        ("ALTER TABLE t DELETE TAG monday; CALL sys.rename_tag('s.t', 'x', 'y')", "the table has no tags"),
        ("CALL sys.delete_branch('s.t', 'b')", "the table has no branches"),
        ("CALL sys.create_branch('s.t', 'b'); CALL sys.fast_forward('s.t', 'x')", "branches are b"),
        ("SELECT * FROM `t$branch_x`", "t$branches lists"),
    ],
)
def test_an_unknown_or_existing_name_is_refused_with_the_way_out(
    catalog: penstock.Catalog, statement: str, way_out: str
) -> None:
    run(catalog, "ALTER TABLE t CREATE TAG monday")
    with pytest.raises(PenstockError) as caught:
        run(catalog, statement)
    assert way_out in str(caught.value.hint)


def test_an_error_lists_ten_tags(catalog: penstock.Catalog) -> None:
    run(catalog, ";".join(f"ALTER TABLE t CREATE TAG day{number}" for number in range(11)))
    with pytest.raises(PenstockError) as caught:
        run(catalog, "ALTER TABLE t REPLACE TAG x")
    assert str(caught.value.hint).endswith("day8, ...")
