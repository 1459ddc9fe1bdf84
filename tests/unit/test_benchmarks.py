"""The page of results: how its tables are written, and which figures are not replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import all as suite
from benchmarks import results_page
from benchmarks.all import BENCHMARKS, Benchmark, Suite, arguments_of
from benchmarks.figures import VARIABLE, Figure, record, recorded
from benchmarks.results_page import Conditions, TableMissing, content, replaced, row, table, with_figures_of

ROOT = Path(__file__).resolve().parents[2]
IDLE = Conditions("2026-11-22", busy=False, load=0.1, cores=2, versions="commit abc, Python 3.11, PyArrow 21")
BUSY = Conditions("2026-11-23", busy=True, load=7.0, cores=2, versions="commit abc, Python 3.11, PyArrow 21")
# Scripts that no table is made of: parts of others, and what runs in the environment of a peer.
PARTS = {
    "lookup_joins",
    "all",
    "batch_costs",
    "figures",
    "many_files",
    "mongo_replies",
    "object_store",
    "peer_mysql_replication",
    "peer_pypaimon",
    "peer_rust",
    "peer_rust_tables",
    "processes",
    "results_page",
    "tpch_rows",
}
PARTS |= {"large_dimensions"}  # by hand: the night would write 10 M rows for two figures
PARTS |= {"write_files"}  # by hand; `table_io` and `formats` have the figures of the page
# A stand-in for a benchmark: the figures of one row, without measuring.
SCRIPT = "from benchmarks.figures import Figure, record\nrecord(Figure('sum', 2.0, 'ms', 4.0, 'peer', less=True))\n"


def page_of(name: str, inside: str) -> str:
    return f"# Figures\n\nProse.\n\n{results_page.start(name)}\n{inside}\n{results_page.END}\nWhat is missed.\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "RESULTS.md"
    path.write_text(page_of("one", table("python -m benchmarks.one", IDLE, [Figure("old", 1.0, "ms")])))
    path.with_name("README.md").write_text(
        "| work | ours | peer | ratio |\n|---|---|---|---|\n| sum | 9 ms | peer 9 | 1x |\n"
    )
    return path


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark that is run as `python -m benchmarks.one` from another root."""
    package = tmp_path / "root" / "benchmarks"
    package.mkdir(parents=True)
    # Penstock itself, which the package imports, is not there.
    (package / "__init__.py").touch()
    (package / "figures.py").write_text((ROOT / "benchmarks" / "figures.py").read_text())
    (package / "one.py").write_text(SCRIPT)
    monkeypatch.setattr(suite, "ROOT", tmp_path / "root")
    return Benchmark("one", "one")


def test_figures_are_recorded_only_where_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Figure("a", 1.5, "s", goal=2.0, less=True), Figure("b", 3.0, "MB", 6.0, "peer")
    record(first)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "figures"))
    record(first)
    record(second)
    assert recorded(tmp_path / "figures") == [first, second]
    assert recorded(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("w", 1_548_225.0, "rows/s", 26_674.0, "pypaimon"), "1,548,225 rows/s | 26,674 (pypaimon) | 58x | "),
        (Figure("w", 20.8, "CPU-s", 97.9, "Flink", less=True), "20.8 CPU-s | 97.9 (Flink) | 4.71x | "),
        (Figure("w", 0.0123, "s", goal=0.5, less=True), "0.0123 s |  |  | 0.5: reached"),
        (Figure("w", 1.4, "M", goal=2.0), "1.4 M |  |  | 2: missed"),
        (Figure("w", 77.0, "M", 100.0, "bare", 0.85, goal_of_ratio=True), "77 M | 100 (bare) | 0.77x | 0.85x: missed"),
        (Figure("w", 5.0, "ms", goal=1.0, goal_of_ratio=True, less=True), "5 ms |  |  | 1x: the peer did not run"),
        (Figure("w", 8.0, "ms", 9.0, "p", 1.0, goal_of_ratio=True, less=True), "8 ms | 9 (p) | 1.12x | 1x: reached"),
        (Figure("w", 0.0, "ms", 9.0, "rust", less=True), "0 ms | 9 (rust) |  | "),
    ],
)  # fmt: skip
def test_rows_contain_the_ratio_and_the_goal(figure: Figure, expected: str) -> None:
    assert row(figure) == f"| w | {expected} |"


def test_a_table_names_its_command_and_the_state_of_the_machine() -> None:
    text = table("python -m benchmarks.one 5", BUSY, [Figure("sum", 2.0, "ms")])
    first, empty, *rows = text.splitlines()
    assert first == (
        "`python -m benchmarks.one 5` · 2026-11-23 · busy, load 7.0 before it, 2 cores"
        " · commit abc, Python 3.11, PyArrow 21"
    )
    assert empty == ""
    assert rows == ["| work | ours | peer | ratio | goal |", "|---|---|---|---|---|", "| sum | 2 ms |  |  |  |"]


def test_a_table_replaces_only_what_is_between_its_marks() -> None:
    page = page_of("one", "old") + page_of("two", "kept")
    assert replaced(page, "one", "new") == page_of("one", "new") + page_of("two", "kept")
    empty = page_of("one", "").replace("\n\n<!-- end", "\n<!-- end") + page_of("two", "kept")
    assert replaced(empty, "one", "new") == page_of("one", "new") + page_of("two", "kept")


@pytest.mark.parametrize("page", ["# Figures\n", "<!-- figures: one -->\nno end\n"])
def test_a_page_without_the_marks_is_an_error(page: str) -> None:
    with pytest.raises(TableMissing, match="figures: one"):
        content(page, "one")


def test_a_busy_machine_does_not_replace_idle_figures(page: Path, one: Benchmark) -> None:
    before = page.read_text()
    problem = Suite(page, page.with_name("README.md"), allow_busy=False, used=lambda: 1.5).run(one)
    assert "idle machine" in problem
    assert page.read_text() == before


@pytest.mark.slow
def test_other_work_that_begins_during_a_run_is_noticed(page: Path, one: Benchmark) -> None:
    before, used = page.read_text(), iter([0.0, 1.5])
    assert "idle machine" in Suite(page, page.with_name("README.md"), allow_busy=False, used=lambda: next(used)).run(
        one
    )
    assert page.read_text() == before


@pytest.mark.slow
def test_busy_replaces_idle_figures_when_it_is_requested(page: Path, one: Benchmark) -> None:
    assert Suite(page, page.with_name("README.md"), allow_busy=True, used=lambda: 1.5, load=3.0).run(one) == ""
    assert "· busy, load 3.0 before it" in page.read_text()
    assert "| sum | 2 ms | 4 (peer) | 2x |  |" in page.read_text()


@pytest.mark.slow
def test_the_rows_of_the_readme_follow_those_of_the_page(page: Path, one: Benchmark) -> None:
    readme = page.with_name("README.md")
    assert Suite(page, readme, allow_busy=False, used=lambda: 0.0).run(one) == ""
    assert readme.read_text() == "| work | ours | peer | ratio |\n|---|---|---|---|\n| sum | 2 ms | 4 (peer) | 2x |\n"


def test_other_tables_of_the_readme_are_kept() -> None:
    text = "| sum | a | b |\n| other | 1 | 2 | 3 |\n| a \\| b | 1 | 2 | 3 |\nsum\n"
    page = "| sum | 2 ms | 4 (peer) | 2x |  |\n| a \\| b | 5 ms |  |  |  |\n"
    assert with_figures_of(text, page) == text.replace("| a \\| b | 1 | 2 | 3 |", "| a \\| b | 5 ms |  |  |")


@pytest.mark.slow
def test_a_busy_machine_replaces_busy_figures(page: Path, one: Benchmark) -> None:
    page.write_text(page_of("one", table("python -m benchmarks.one", BUSY, [Figure("old", 1.0, "ms")])))
    assert Suite(page, page.with_name("README.md"), allow_busy=False, used=lambda: 1.5).run(one) == ""
    assert "| old |" not in page.read_text()


@pytest.mark.slow
def test_an_idle_machine_replaces_idle_figures(page: Path, one: Benchmark) -> None:
    assert Suite(page, page.with_name("README.md"), allow_busy=False, used=lambda: 0.0).run(one) == ""
    assert "· idle, load 0.0 before it" in page.read_text()
    assert page.read_text().endswith("What is missed.\n")


@pytest.mark.slow
@pytest.mark.parametrize("script", ["raise SystemExit(3)", SCRIPT + "raise SystemExit(3)", "print('no figure')"])
def test_a_benchmark_that_fails_leaves_its_table_as_it_was(page: Path, one: Benchmark, script: str) -> None:
    (suite.ROOT / "benchmarks" / "one.py").write_text(script)
    before = page.read_text()
    assert (
        Suite(page, page.with_name("README.md"), allow_busy=True, used=lambda: 0.0)
        .run(one)
        .startswith("failed: one: exit code ")
    )
    assert page.read_text() == before


def test_a_missing_need_leaves_a_benchmark_out() -> None:
    words, reason = arguments_of(Benchmark("one", "one", needs=("no_such_program",)))
    assert words is None
    assert "no_such_program is missing" in reason


def test_a_missing_peer_leaves_out_only_the_peer_where_a_benchmark_can() -> None:
    lacking = {"peer": "Flink", "peer_needs": ("no_such_program",)}
    assert arguments_of(Benchmark("one", "one", "5", without_peer=("--only", "ours"), **lacking)) == (
        ["5", "--only", "ours"],
        "Flink: no_such_program is missing",
    )
    assert arguments_of(Benchmark("one", "one", "5", **lacking))[0] is None


def test_a_variable_of_the_environment_can_be_a_need(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = Benchmark("one", "one", peer="rust", peer_needs=("$ONE_PEER",), without_peer=())
    monkeypatch.delenv("ONE_PEER", raising=False)
    assert arguments_of(benchmark) == ([], "rust: $ONE_PEER is missing")
    monkeypatch.setenv("ONE_PEER", "/usr/bin/python3")
    assert arguments_of(benchmark) == ([], "")


@pytest.fixture
def alone(one: Benchmark) -> Benchmark:
    """The benchmark of a work whose peer is not installed."""
    return Benchmark("one", one.module, peer="rust", peer_needs=("no_such_program",), without_peer=())


def test_a_table_does_not_lose_its_peer_by_itself(page: Path, alone: Benchmark) -> None:
    before = page.read_text()
    problem = Suite(page, page.with_name("README.md"), allow_busy=False, used=lambda: 0.0).run(alone)
    assert problem == "left out: rust: no_such_program is missing"
    assert page.read_text() == before


@pytest.mark.slow
def test_the_table_names_the_peer_that_did_not_run(page: Path, alone: Benchmark) -> None:
    run = Suite(page, page.with_name("README.md"), allow_busy=False, without_peers=True, used=lambda: 0.0)
    assert run.run(alone) == "without its peer: rust: no_such_program is missing"
    assert "· without rust: no_such_program is missing\n" in page.read_text()


def test_the_command_lists_each_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.main(["--list"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [benchmark.name for benchmark in BENCHMARKS]


def test_each_benchmark_has_a_table_on_the_page() -> None:
    text = results_page.PATH.read_text(encoding="utf-8")
    assert re.findall(r"^<!-- figures: (.*) -->$", text, re.MULTILINE) != []
    assert set(re.findall(r"^<!-- figures: (.*) -->$", text, re.MULTILINE)) == {
        benchmark.name for benchmark in BENCHMARKS
    }
    for benchmark in BENCHMARKS:
        inside = content(text, benchmark.name)
        assert inside.startswith(f"`{benchmark.command}` · "), benchmark.name
        assert results_page.HEAD in inside, benchmark.name
        widths = {line.replace("\\|", "").count("|") for line in inside.splitlines() if line.startswith("|")}
        assert widths == {6}, f"{benchmark.name}: a row has other columns than its head"


def test_each_script_is_a_benchmark_of_the_list() -> None:
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__"}
    assert scripts - PARTS == {benchmark.module for benchmark in BENCHMARKS}


def test_the_figures_of_the_readme_are_on_the_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Benchmarks")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    page = results_page.PATH.read_text(encoding="utf-8").splitlines()
    assert len(rows) == 5
    # The rows of the page have one more cell, the goal.
    assert [line for line in rows if not any(text.startswith(line) for text in page)] == []
