from __future__ import annotations

import gzip
import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PositionLost, SourceError
from penstock.formats.change import DecodeOptions
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.files import source as files_source
from penstock.ingest.files.ledger import COMPLETE_EVERY, FoundFile, Ledger
from penstock.ingest.files.lines import SourceFile, read_lines
from penstock.ingest.files.source import FilesSettings, FilesSource
from penstock.ingest.source import NO_LIMIT, Limit, Offsets
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.storage.local import LocalStorage
from penstock.storage.state_folder import StateFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    return made


def source(folder: Path, **settings_: str) -> FilesSource:
    return FilesSource(FilesSettings(str(folder), StateFolder(str(folder.parent / "ledger")), **settings_))  # type: ignore[arg-type]


def put(folder: Path, name: str, text: str, second: int) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    os.utime(path, (second, second))


def lines(files: FilesSource, start: Offsets, end: Offsets, tasks: int = 1) -> list[str]:
    return [
        (value or b"").decode()
        for item in files.plan(start, end, tasks)
        for fetched in files.read(item)
        for value in fetched.messages.values
    ]


def test_files_are_read_once_in_the_order_of_their_time(folder: Path) -> None:
    put(folder, "b.json", "1\n2\n", 10)
    put(folder, "a.json.gz", "3\n4", 20)
    files = source(folder)
    first = files.latest_offsets(files.initial_offsets(), NO_LIMIT)
    assert lines(files, files.initial_offsets(), first) == ["1", "2", "3", "4"]
    assert files.latest_offsets(first, NO_LIMIT) == first
    put(folder, "deeper/c.json", "5\n", 5)
    second = files.latest_offsets(first, NO_LIMIT)
    assert lines(files, first, second) == ["5"]


def test_files_can_be_ordered_by_name(folder: Path) -> None:
    put(folder, "b.json", "2\n", 10)
    put(folder, "a.json", "1\n", 20)
    files = source(folder, order="name")
    assert lines(files, {"batch": 0}, files.latest_offsets({"batch": 0}, NO_LIMIT)) == ["1", "2"]


def test_a_batch_planned_before_a_crash_is_kept(folder: Path) -> None:
    put(folder, "a.json", "1\n", 10)
    end = source(folder).latest_offsets({"batch": 0}, NO_LIMIT)
    put(folder, "0.json", "0\n", 1)
    again = source(folder)
    assert again.latest_offsets({"batch": 0}, NO_LIMIT) == end
    assert lines(again, {"batch": 0}, end) == ["1"]
    assert lines(again, end, again.latest_offsets(end, NO_LIMIT)) == ["0"]


def test_a_batch_that_another_driver_has_planned_meanwhile_keeps_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.json", "1\n", 10)
    late, other, found = source(folder), source(folder), FilesSource._found

    def found_before_the_other_driver_plans(files: FilesSource) -> list[FoundFile]:
        listed = found(files)
        monkeypatch.setattr(FilesSource, "_found", found)
        put(folder, "b.json", "2\n", 20)
        end = other.latest_offsets({"batch": 0}, NO_LIMIT)
        assert lines(other, {"batch": 0}, end) == ["1", "2"]
        return listed

    monkeypatch.setattr(FilesSource, "_found", found_before_the_other_driver_plans)
    end = late.latest_offsets({"batch": 0}, NO_LIMIT)
    assert lines(late, {"batch": 0}, end) == ["1", "2"]
    assert other.latest_offsets(end, NO_LIMIT) == end


def test_the_sizes_of_files_that_an_older_version_recorded_are_unknown(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path / "ledger"))
    folder.write(f"{COMPLETE_EVERY}.json", b'{"files": [], "taken": ["a.json"]}')
    assert Ledger(folder).captured_before(COMPLETE_EVERY + 1) == {"a.json": None}


@pytest.mark.parametrize("count", [2, COMPLETE_EVERY + 2])
def test_a_file_that_is_written_again_after_it_was_read_is_named_once(
    folder: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    batches(folder, count)
    put(folder, "2.json", "[]\n", 99)
    files = source(folder)
    for size in range(2, 4):
        put(folder, "1.json", "{}\n" * size, 1)
        assert files.latest_offsets({"batch": count}, NO_LIMIT) == {"batch": count}
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1
    assert "event=file_changed_after_read file=1.json size_read=3 size_now=6" in said[0]


def test_unfinished_and_other_files_are_not_read(folder: Path) -> None:
    for name in (".a.json", "_tmp/a.json", "a.json.tmp", "readme.txt"):
        put(folder, name, "x\n", 1)
    assert source(folder, pattern="*.json*").available() == {"names": []}


def test_a_limit_allows_at_least_one_file(folder: Path) -> None:
    for number in range(5):
        put(folder, f"{number}.json", "x" * 99 + "\n", number)
    files = source(folder)
    assert files.latest_offsets({"batch": 0}, Limit(bytes=1)) == {"batch": 1}
    assert lines(files, {"batch": 0}, {"batch": 1}) == ["x" * 99]
    files.latest_offsets({"batch": 1}, Limit(rows=3))
    assert len(lines(files, {"batch": 1}, {"batch": 2})) == 3
    assert files.lag({"batch": 2}) == {"4.json": 100}


def test_a_bounded_run_leaves_later_files(folder: Path) -> None:
    put(folder, "a.json", "1\n", 10)
    files = source(folder)
    until = files.available()
    put(folder, "b.json", "2\n", 20)
    end = files.latest_offsets({"batch": 0}, NO_LIMIT, until)
    assert lines(files, {"batch": 0}, end) == ["1"]
    assert files.latest_offsets(end, NO_LIMIT, until) == end


@pytest.mark.parametrize("after", ["gone", "longer"])
def test_a_file_that_changed_after_it_was_listed_is_a_lost_position(folder: Path, after: str) -> None:
    put(folder, "a.json", "1\n", 10)
    files = source(folder)
    end = files.latest_offsets({"batch": 0}, NO_LIMIT)
    (folder / "a.json").unlink()
    if after == "longer":
        put(folder, "a.json", "1\n2\n", 10)
    with pytest.raises(PositionLost):
        lines(files, {"batch": 0}, end)


def test_a_cut_gzip_file_is_an_error(folder: Path) -> None:
    (folder / "a.json.gz").write_bytes(gzip.compress(b"1\n" * 100_000)[:-20])
    files = source(folder)
    end = files.latest_offsets({"batch": 0}, NO_LIMIT)
    with pytest.raises(SourceError):
        lines(files, {"batch": 0}, end)


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        source(tmp_path / "nowhere").available()


def test_a_file_configured_as_folder_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "1\n", 10)
    with pytest.raises(SourceError, match="is a file"):
        source(tmp_path / "a.json").available()


def test_files_with_equal_times_are_read_in_order(folder: Path) -> None:
    for name, nanos in (("a.json", 2000), ("b.json", 1000)):
        put(folder, name, f"{name}\n", 10)
        os.utime(folder / name, ns=(0, 10_000_000_000 + nanos))
    files = source(folder)
    assert lines(files, {"batch": 0}, files.latest_offsets({"batch": 0}, NO_LIMIT)) == ["b.json", "a.json"]


@given(
    text=st.lists(
        st.sampled_from(["a", "bb", "", "ccc\r", "d" * 40, "  ", "\r", " e", "\t\r", "f\r\r", "\x0b"]), max_size=30
    ).map("\n".join),
    cuts=st.lists(st.integers(0, 400), max_size=4),
    chunk=st.integers(1, 64),
)
@settings(deadline=None)
def test_each_line_is_read_once_with_its_offset_for_any_ranges(
    text: str, cuts: list[int], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.json"
    path.write_bytes(text.encode())
    size = len(text)
    file = SourceFile(LocalStorage(), str(path.parent), path.name, size)
    edges = sorted({0, size, *(cut for cut in cuts if cut < size)})
    read = [
        (int(offset), value)
        for begin, end in pairwise(edges)
        for fetched in read_lines(file, begin, end, chunk=chunk)
        for offset, value in zip(fetched.messages.offsets, fetched.messages.values, strict=True)
    ]
    wanted, offset = [], 0
    for line in text.split("\n"):
        if line.strip():
            wanted.append((offset, line.rstrip("\r").encode()))
        offset += len(line) + 1
    assert read == wanted


@pytest.mark.slow
def test_the_ledger_merges_entries_and_keeps_all_names(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    ledger = Ledger(StateFolder(str(tmp_path / "ledger")))
    total = 3 * COMPLETE_EVERY + 5
    for batch in range(1, total + 1):
        put(folder, f"{batch}.json", "x\n", batch)
        files = source(folder)
        ledger.write(batch, [file for file in files._found() if file.name == f"{batch}.json"])
    kept = len(list((tmp_path / "ledger").glob("*.json")))
    assert kept <= 2 * COMPLETE_EVERY + 6
    assert len(Ledger(StateFolder(str(tmp_path / "ledger"))).captured_before(total + 1)) == total


@pytest.mark.parametrize("tasks", [1, 2, 5, 9])
def test_an_update_of_two_lines_is_one_change_with_any_cuts_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setattr(files_source, "SMALLEST_PIECE_BYTES", 1)
    monkeypatch.setattr(files_source, "_LOOKS_BACK", 10)  # shorter than a line
    schema = {"dataColumn": [{"name": "id", "type": "LONG"}], "primaryKey": ["id"], "source": {"tableName": "t"}}

    def line(operation: str, number: int) -> str:
        image = {"before" if operation == "UPDATE_BEFORE" else "after": {"dataColumn": {"id": number}}}
        return json.dumps({"schema": schema, "payload": {"op": operation, **image}})

    moves = [line(operation, 2 * n + at) for n in range(20) for at, operation in enumerate(_PAIR)]
    put(folder, "a.json", "\n".join([*moves, line("UPDATE_BEFORE", 99)]) + "\n", 1)
    put(folder, "b.json", line("UPDATE_AFTER", 100), 2)
    files = DecodedSource(source(folder), "aliyun-json")
    end = files.latest_offsets(files.initial_offsets(), NO_LIMIT)
    found = [
        (int(kind), int(row["id"]))
        for item in files.plan(files.initial_offsets(), end, tasks)
        for chunk in files.chunks(item, DecodeOptions())
        for batch in chunk.decoded.batches
        for kind, row in zip(batch.kinds, batch.rows.to_pylist(), strict=True)
    ]
    # Every key moves: a delete and an insertion. Lines of two files do not belong together.
    assert found == [(DELETE if n % 2 == 0 else INSERT, n) for n in range(40)] + [
        (UPDATE_BEFORE, 99),
        (UPDATE_AFTER, 100),
    ]


_PAIR = ("UPDATE_BEFORE", "UPDATE_AFTER")


def batches(folder: Path, count: int) -> FilesSource:
    """Return a source that has planned so many batches, of one file each."""
    files = source(folder)
    for number in range(1, count + 1):
        put(folder, f"{number}.json", "{}\n", number)
        assert files.latest_offsets({"batch": number - 1}, NO_LIMIT) == {"batch": number}
    return files


def test_a_batch_whose_record_was_deleted_since_is_an_error(folder: Path) -> None:
    """A table that was parked for very many batches catches up with them."""
    files = batches(folder, 3 * COMPLETE_EVERY)
    with pytest.raises(PositionLost, match="record of the files"):
        files.plan({"batch": 0}, {"batch": 1}, 1)
    assert len(files.plan({"batch": 2 * COMPLETE_EVERY}, {"batch": 3 * COMPLETE_EVERY}, 1)) == COMPLETE_EVERY


@pytest.mark.parametrize("number", [COMPLETE_EVERY, COMPLETE_EVERY + 2])
def test_files_of_a_batch_without_record_do_not_count_as_new(folder: Path, number: int) -> None:
    batches(folder, COMPLETE_EVERY + 4)
    (folder.parent / "ledger" / f"{number}.json").unlink()
    put(folder, "new.json", "{}\n", 999)
    with pytest.raises(PositionLost) as caught:
        source(folder).latest_offsets({"batch": COMPLETE_EVERY + 4}, NO_LIMIT)
    assert caught.value.facts["batch"] == number
