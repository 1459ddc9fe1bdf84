"""pypaimon reads what ours wrote, and writes what ours reads: every type in every format, every golden story."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.storage.local import LocalStorage
from penstock.table.meta.store import TableStore
from tests.golden.cases import Case
from tests.golden.relations import Relation, Type, difference, relation_of
from tests.golden.rows import arrow_rows
from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon, PypaimonRefused
from tests.interop.stories import story_names
from tests.invariants import check_invariants
from tests.simulation.story import TIME, Story, without_early_times
from tests.simulation.tellers import NotTold, Ours, create_ours

FORMATS = ("parquet", "orc", "avro")
EVERY_TYPE = Case("types_append_parquet").latest
KEY = ("k", "INT NOT NULL")

NO_MULTISET = "pypaimon has no MULTISET"
FINE_TIMES = "pypaimon writes timestamps in a form that Java misreads or refuses"
AVRO_NESTED = "pypaimon writes no nulls in nested Avro values, and no maps"
NOT_YET = {
    **{("reads", file_format, "c_multi"): NO_MULTISET for file_format in FORMATS},
    **{("writes", file_format, "c_multi"): NO_MULTISET for file_format in FORMATS},
    **{("writes", "parquet", name): FINE_TIMES for name in ("c_ts9", "c_ltz9")},
    **{("writes", "avro", name): AVRO_NESTED for name in ("c_arr_int", "c_arr_str", "c_arr_row", "c_arr_arr")},
    **{("writes", "avro", name): AVRO_NESTED for name in ("c_map", "c_map_arr")},
    ("writes", "orc", "c_char"): "Java cuts blanks off a CHAR in ORC, which pypaimon writes as a string",
}
# Paimon keeps no timestamps finer than microseconds in Avro.
NEVER = {("avro", "c_ts9"), ("avro", "c_ltz9")}
STORIES_NOT_YET = {
    "merge_agg_lookup": "pypaimon adds retractions up otherwise",
}


def gaps(direction: str) -> list[Any]:
    """Each format and column; what pypaimon cannot do (yet) is named, and must go on failing until the name goes."""
    params = []
    for file_format in FORMATS:
        for column in (name for name in EVERY_TYPE.columns if (file_format, name) not in NEVER):
            reason = NOT_YET.get((direction, file_format, column))
            params.append(pytest.param(file_format, column, marks=notyet(reason)))
    return params


def notyet(reason: str | None) -> list[Any]:
    return [pytest.mark.notyet(reason), pytest.mark.xfail(strict=True, reason=reason)] if reason else []


def golden_cases() -> list[Any]:
    return [pytest.param(name, marks=notyet(STORIES_NOT_YET.get(name))) for name in story_names()]


def column_rows(name: str, file_format: str = "parquet") -> Relation:
    """The golden values of one type, each under a key; of times in ORC those that pypaimon does not wrap."""
    place = EVERY_TYPE.columns.index(name)
    rows = [[number, row[place]] for number, row in enumerate(EVERY_TYPE.rows)]
    if file_format == "orc":
        rows = in_reach(without_early_times(rows))
    return Relation(("k", "v"), (KEY[1], EVERY_TYPE.types[place]), rows)


def in_reach(value: Any) -> Any:
    """Nanoseconds since 1970 end in 2262."""
    if isinstance(value, list):
        return [in_reach(part) for part in value]
    if isinstance(value, dict):
        return {key: in_reach(part) for key, part in value.items()}
    return f"2200{value[4:]}" if isinstance(value, str) and TIME.fullmatch(value) and value > "2262" else value


def columns_of(rows: Relation) -> list[tuple[str, Type]]:
    return list(zip(rows.columns, rows.types, strict=True))


@pytest.mark.parametrize(("file_format", "column"), gaps("reads"))
def test_values_written_by_ours_are_read_by_pypaimon(
    pypaimon: Pypaimon, tmp_path: Path, file_format: str, column: str
) -> None:
    rows, path, storage = column_rows(column, file_format), tmp_path / "t", LocalStorage(sync=False)
    story = Story(columns_of(rows), ["k"], [], {"bucket": "1", "file.format": file_format})
    create_ours(story, storage, str(path))
    ours = Ours(lambda branch: TableStore.open(storage, str(path), branch))
    ours.tell({"op": "write", "rows": [["+I", *row] for row in rows.rows]}, 1)
    assert difference(rows, pypaimon.read(path)) is None


@pytest.mark.parametrize(("file_format", "column"), gaps("writes"))
def test_values_written_by_pypaimon_are_read_by_ours_as_by_java(
    pypaimon: Pypaimon, oracle: Oracle, tmp_path: Path, file_format: str, column: str
) -> None:
    rows = column_rows(column, file_format)
    options = {"bucket": "1", "file.format": file_format}
    path = pypaimon.create(tmp_path, "db.t", columns_of(rows), primary_keys=["k"], options=options)
    pypaimon.write(path, arrow_rows(rows.rows, columns_of(rows)))
    ours = penstock.open_table(str(path)).scan().to_arrow()
    assert difference(oracle.read(path), ours) is None
    assert difference(rows, ours) is None


@pytest.mark.parametrize("name", golden_cases())
def test_pypaimon_reads_our_golden_histories_where_it_reads_those_of_java(
    pypaimon: Pypaimon, tmp_path: Path, name: str
) -> None:
    case, path, storage = Case(name), tmp_path / "golden.db" / name, LocalStorage(sync=False)
    try:
        wrong = difference(case.latest, pypaimon.read(case.table))
    except PypaimonRefused as refused:
        wrong = str(refused)
    if wrong is not None:
        pytest.skip(f"pypaimon does not read what Java wrote: {wrong.splitlines()[0][:100]}")
    story = Story.of_case(case)
    if any("orc" in value for value in story.options.values()):
        story = story.tamed()
    create_ours(story, storage, str(path))
    ours = Ours(lambda branch: TableStore.open(storage, str(path), branch))
    for place, step in enumerate(story.steps):
        try:
            ours.tell(step, None if "user" in step or "overwrite" in step else place)
        except NotTold as unknown:
            pytest.xfail(f"notimpl: {unknown}")
    # What ours reads is held against Java elsewhere.
    types = dict(zip(case.latest.columns, case.latest.types, strict=True))
    rows = replace(
        relation_of(penstock.open_table(str(path)).scan().to_arrow(), types), unordered=case.latest.unordered
    )
    wrong = difference(rows, pypaimon.read(path))
    assert wrong is None, wrong


def test_we_and_pypaimon_write_one_table_in_turn(pypaimon: Pypaimon, oracle: Oracle, tmp_path: Path) -> None:
    rows = column_rows("c_string")
    path = tmp_path / "db.db" / "t"
    create_ours(Story(columns_of(rows), ["k"], [], {"bucket": "2"}), LocalStorage(sync=False), str(path))
    for turn in range(4):
        part = Relation(rows.columns, rows.types, [[key, f"{turn}-{value}"] for key, value in rows.rows[turn::2]])
        data = arrow_rows(part.rows, columns_of(rows))
        if turn % 2:
            pypaimon.write(path, data)
        else:
            with penstock.open_table(str(path)).writer("ours") as writer:
                writer.write(data)
                writer.commit(turn)
    table = penstock.open_table(str(path))
    java = oracle.read(path)
    assert difference(java, table.scan().to_arrow()) is None
    assert difference(java, pypaimon.read(path)) is None
    check_invariants(table)
