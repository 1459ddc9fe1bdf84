"""lookup-wait: whether a commit waits for the compaction that shows its rows, or goes ahead of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.table.compaction.plan import CompactionSpec
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

KINDS = {
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
}


def table_of(folder: Path, kind: str, **more: str) -> Table:
    options = {"bucket": "2", "lookup-wait": "false", **KINDS[kind], **more}
    return new_table(folder, options=options)


def level0(table: Table) -> int:
    latest = table.refresh().latest_snapshot
    assert latest is not None
    return sum(1 for entry in live_entries(table.store, latest) if entry.file.level == 0)


def changes(table: Table) -> list[tuple[object, ...]]:
    found = (row for snapshot in table.snapshots for row in table.changes(snapshot.id - 1, snapshot.id).to_pylist())
    return [(row["rowkind"], row["id"], row["name"]) for row in found]


def folded(messages: list[tuple[object, ...]]) -> dict[object, object]:
    """Return the rows of a reader of the changes; each change must fit the rows before it."""
    held: dict[object, object] = {}
    for kind, key, value in messages:
        if kind in {"-U", "-D"}:
            assert held.pop(key) == value
        else:
            assert key not in held
            held[key] = value
    return held


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_precedes_its_compaction_and_the_next_one_completes_it(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, kind)
    with table.writer("etl") as writer:
        writer.write(rows(table, *((number, "a", None) for number in range(8))))
        made = writer.commit(1)
        assert [item.commit_kind for item in made] == [CommitKind.APPEND]
        assert level0(table) == 2
        writer.write(rows(table, (0, "b", None)))  # one of the two buckets
        made = writer.commit(2)
        assert [item.commit_kind for item in made] == [CommitKind.APPEND, CommitKind.COMPACT]
        assert level0(table) == 1
        writer.commit(3)  # without rows of its own
    assert level0(table) == 0
    expected = "a" if kind == "first row" else "b"
    assert {row[0]: row[1] for row in content(table)} == {0: expected, **dict.fromkeys(range(1, 8), "a")}
    check_invariants(table)


@pytest.mark.slow
def test_readers_of_the_changes_lose_nothing(tmp_path: Path) -> None:
    lagging = table_of(tmp_path / "lagging", "lookup")
    waiting = table_of(tmp_path / "waiting", "lookup", **{"lookup-wait": "true"})
    for table in (lagging, waiting):
        with table.writer("etl") as writer:
            for turn in range(5):
                batch = rows(table, *((turn * 3 + number, f"{turn}", None) for number in range(7)))
                writer.write(batch, ["-D" if number == 0 and turn else "+I" for number in range(7)])
                writer.commit(turn)
    assert len(changes(lagging)) < len(changes(waiting))  # the last commit is still to come
    lagging.compact(full=False)
    assert Counter(changes(lagging)) == Counter(changes(waiting))
    assert folded(changes(lagging)) == {row[0]: row[1] for row in content(lagging)}
    assert content(lagging) == content(waiting)


def test_compaction_left_by_a_writer_is_done_by_the_next_writer_of_the_bucket(tmp_path: Path) -> None:
    table = table_of(tmp_path, "lookup", bucket="1")
    for turn in range(3):
        with table.writer("etl") as writer:
            writer.write(rows(table, (1, f"{turn}", None)))
            writer.commit(turn)
        assert level0(table) == 1
    assert changes(table) == [("+I", 1, "0"), ("-U", 1, "0"), ("+U", 1, "1")]


@pytest.mark.parametrize(
    "options",
    [{"lookup-wait": "true"}, {"commit.force-compact": "true"}, {"full-compaction.delta-commits": "1"}],
)
def test_a_commit_waits_for_compaction_if_configured(tmp_path: Path, options: dict[str, str]) -> None:
    table = table_of(tmp_path, "lookup", **options)
    with table.writer("etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit(1)
    assert level0(table) == 0


def test_a_single_commit_waits_for_its_compaction(tmp_path: Path) -> None:
    table = table_of(tmp_path, "lookup")
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    assert level0(table) == 0


def test_the_option_has_an_older_key_and_no_effect_without_lookups(tmp_path: Path) -> None:
    def lags(**options: str) -> bool:
        named = {name.replace("_", "-"): value for name, value in options.items()}
        return CompactionSpec.of(new_table(tmp_path / f"{len(options)}{options}", options=named).definition).lags

    assert lags(changelog_producer="lookup", **{"changelog-producer.lookup-wait": "false"})
    assert not lags(changelog_producer="lookup")
    assert not lags(lookup_wait="false")
    assert not lags(changelog_producer="full-compaction", lookup_wait="false")
