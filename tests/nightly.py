"""The run of a night: stories, peers, statements, faults, orders, kills, fuzzing and others, in chosen sizes.

    python -m tests.nightly                                    # `make nightly`: hours
    python -m tests.nightly --stories 2000 --kills 3 --fuzz-minutes 2 --parts stories,fuzz

The run can be stopped at any time. Called again with the same folder, it continues: what is in `log.jsonl` is not done
again. `summary.json` has the figures of all that was done, and the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.kept import keep_failed

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "stories", "pipelines", "peers", "statements", "faults", "orders", "kills", "commits", "fuzz", "others", "mutants",
)  # fmt: skip
CHUNK = 500  # stories per process
PIPELINES = 100  # stories of pipelines per process
TURNS = 100  # stories of peers per process
ROUNDS = 25  # random kills per process
SCRIPTS, STEPS = 20, 100  # scripts of SQL per process, and statements per script
_PLAYED = re.compile(r"^(\d+) stories, (\d+) failed", re.MULTILINE)
_RAN = re.compile(r"^(\d+) statements, (\d+) scripts failed", re.MULTILINE)
_FAILED_SCRIPT = re.compile(r"^seed (\d+),", re.MULTILINE)
_FAILED_SEED = re.compile(r"^seed (\d+), step", re.MULTILINE)
_SKIPPED = re.compile(r"\b(\d+) skipped\b")
_ENDED = re.compile(r"(?:(\d+) failed)?(?:, )?(?:(\d+) passed)?[^\n]* in [\d.:]+s?.*")

# The fuzz tests that go on with new inputs until their time is over.
_TIMED = ("test_a_changed", "test_a_damaged", "test_any_request", "test_changed")

# Fixtures need the plugin of parallel runs, also in one process.
PYTEST = ("-m", "pytest", "-q", "-n", "0", "--timeout", "36000", "-o", "faulthandler_timeout=0")
PEERS_TEST = "tests/stories/test_peers.py::test_peers_agree_in_many_stories"
# Commits of Penstock and of Java under the locks of one catalog.
COMMITS_TESTS = (
    "tests/interop/test_hive_catalog.py::test_commits_of_both_under_one_lock_are_kept",
    "tests/interop/test_jdbc_catalog.py::test_commits_of_both_under_one_lock_are_kept",
)
# Each store operation of each operation on tables fails in each way.
FAULTS_TESTS = (
    "tests/simulation/test_verbs.py",
    "tests/simulation/test_faults.py",
    "tests/simulation/test_changed_metadata.py",
    "tests/integration/storage/test_failing_requests.py",
)
# Jobs at once on one table, in the orders of a night.
ORDERS_TESTS = (
    "tests/simulation/test_interleavings.py::test_random_orders_of_two_jobs_keep_the_table_correct",
    "tests/simulation/test_interleavings.py::test_no_order_of_two_jobs_breaks_the_table",
    "tests/simulation/test_interleavings.py::test_minor_and_full_compactions_are_interleaved",
    "tests/simulation/test_pairs.py",
    "tests/simulation/test_histories.py",
)
KILLS_TEST = "tests/chaos/test_kills.py::test_kills_of_the_driver_at_any_point_lose_and_repeat_nothing"
# Tests of other parts of the product, which try more at night than in each run.
OTHER_TESTS = (
    "tests/chaos/test_cluster_kills.py::test_kills_of_driver_and_worker_on_a_cluster_lose_and_repeat_nothing",
    "tests/chaos/test_joined_range_kills.py::test_killed_and_slow_executors_change_nothing_in_ranges_read_together",
    "tests/chaos/test_sql_stream_kills.py::test_a_killed_stream_of_sql_loses_and_repeats_no_row",
    "tests/integration/kafka/test_freshness.py::test_tables_with_a_freshness_have_each_row_once_after_kills",
    "tests/integration/mysql/test_ddl_in_one_batch.py",
    "tests/interop/test_hive_catalog.py::test_descriptions_of_generated_tables_equal_those_of_java",
    "tests/unit/formats/debezium/test_avro_changes.py::test_rows_of_walked_messages_are_those_of_the_record_path_in_many_messages",
    "tests/unit/formats/layouts/test_layout_rows.py",
    "tests/unit/pipelines/driver/test_batch_freshness.py::test_every_row_is_there_once_after_random_stories",
    "tests/unit/table/meta/test_avro_blocks.py",
    "tests/unit/table/read/test_change_stream.py::test_streams_have_the_rows_of_the_table",
    "tests/unit/table/read/test_random_expressions.py",
)
# Folders with properties. Each property is tried with 10,000 examples, which takes a minute or two of CPU.
PROPERTIES = ("tests/unit/formats", "tests/unit/ingest", "tests/unit/pipelines", "tests/unit/table")

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the night that is done or not done, with a name that is the same in every run of it."""

    part: str
    name: str
    run: Callable[[], Result]


class Night:
    """The night's folder: `log.jsonl` has a line for each piece that is done."""

    def __init__(self, folder: Path, jobs: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.jobs, self._log = folder, jobs, folder / "log.jsonl"

    def done(self) -> dict[str, Result]:
        if not self._log.exists():
            return {}
        found = [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]
        return {f"{item['part']} {item['name']}": item for item in found}

    def run(self, pieces: list[Piece], *, jobs: int) -> None:
        left = [piece for piece in pieces if f"{piece.part} {piece.name}" not in self.done()]
        with ThreadPoolExecutor(jobs) as pool:
            for piece, (seconds, result) in zip(left, pool.map(self._timed, left), strict=True):
                line = {"part": piece.part, "name": piece.name, "seconds": round(seconds), **result}
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
                self.summarize()

    @staticmethod
    def _timed(piece: Piece) -> tuple[float, Result]:
        started = time.monotonic()
        result = piece.run()
        return time.monotonic() - started, result

    def summarize(self) -> Result:
        """Write the sums of all that was done to `summary.json`, and return them."""
        parts: dict[str, Result] = {}
        for item in self.done().values():
            part = parts.setdefault(item["part"], {"pieces": 0, "seconds": 0, "failed": 0, "failures": []})
            part["pieces"] += 1
            for name, value in item.items():
                if isinstance(value, int):
                    part[name] = part.get(name, 0) + value
            part["failures"] += item.get("failures", [])
        (self.folder / "summary.json").write_text(json.dumps(parts, indent=2) + "\n", encoding="utf-8")
        return parts


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "1000"} | environment,  # so that pytest does not cut the reasons of failures
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def stories(
    first: int, count: int, part: str = "stories", package: str = "stories", chunk: int = CHUNK
) -> Iterator[Piece]:
    """Yield the pieces in which these seeds are played by one of the packages of stories."""

    def play(start: int, number: int) -> Result:
        ran = python("-m", f"tests.{package}", str(start), str(number))
        found = _PLAYED.search(ran.stdout)
        if found is None:
            return {"stories": 0, "failed": 1, "failures": [f"seeds from {start} on: {ran.stdout[-2000:]}"]}
        seeds = _FAILED_SEED.findall(ran.stdout)
        return {"stories": int(found[1]), "failed": int(found[2]), "failures": [f"seed {seed}" for seed in seeds]}

    for start in range(first, first + count, chunk):
        number = min(chunk, first + count - start)
        yield Piece(part, f"{start} {number}", lambda start=start, number=number: play(start, number))  # type: ignore[misc]


def tests(*words: str, **environment: str) -> Result:
    """Run pytest, and return what it counts at its end."""
    ran = python(*PYTEST, *words, **environment)
    lines = [line for line in ran.stdout.splitlines() if _ENDED.fullmatch(line.strip("= "))]
    ended = _ENDED.fullmatch(lines[-1].strip("= ")) if lines else None
    failures = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode and not failures:
        failures = [ran.stdout[-2000:]]
    return counted(int((ended and ended[2]) or 0), failures, lines[-1] if lines else "", words)


def counted(passed: int, failures: list[str], last_line: str, words: tuple[str, ...]) -> Result:
    """Return the counts of a run of pytest. What did not run is a failure: a night must not count it as done."""
    skipped = _SKIPPED.search(last_line)
    if skipped or (not passed and not failures):
        failures = [*failures, f"NOT RUN: {skipped[1] if skipped else 'all'} tests of {' '.join(words)}"]
    return {"passed": passed, "failed": len(failures), "failures": failures}


def peers(first: int, count: int) -> Iterator[Piece]:
    """Yield the pieces in which all peers play these seeds in turn."""

    def play(start: int, number: int) -> Result:
        environment = {"PENSTOCK_PEER_SEED": str(start), "PENSTOCK_PEER_STORIES": str(number)}
        return {"stories": number, **tests(PEERS_TEST, "--night", **environment)}

    for start in range(first, first + count, TURNS):
        number = min(TURNS, first + count - start)
        yield Piece("peers", f"{start} {number}", lambda start=start, number=number: play(start, number))  # type: ignore[misc]


def simulated(part: str, names: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the tests on simulated stores, with all faults and orders that a night has."""
    for name in names:
        yield Piece(part, name, lambda name=name: simulate(part, name))  # type: ignore[misc]


def simulate(part: str, name: str) -> Result:
    """Run one of them, and count what failed or was interrupted."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "plays")
        result = tests(name, "--night", PENSTOCK_PLAYS_LOG=str(log))
        plays = sum(map(int, log.read_text(encoding="utf-8").split())) if log.exists() else 0
    return {part: plays, **result}


def kills(rounds: int) -> Iterator[Piece]:
    """Yield the pieces with this number of rounds of random kills, each after kills at all named points.

    Drivers that reached the end before they could be killed are not counted.
    """
    for start in range(0, rounds, ROUNDS):
        number = min(ROUNDS, rounds - start)
        yield Piece("kills", f"{start} {number}", lambda start=start, number=number: killed(start, number))  # type: ignore[misc]


def killed(start: int, rounds: int) -> Result:
    environment = {"PENSTOCK_CHAOS_ROUNDS": str(rounds), "PENSTOCK_CHAOS_SEED": str(start)}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "kills")
        result = tests(KILLS_TEST, **environment, PENSTOCK_CHAOS_LOG=str(log))
        kills = sum(map(int, log.read_text(encoding="utf-8").split())) if log.exists() else 0
    return {"kills": kills, **result}


def commits(number: int) -> Iterator[Piece]:
    """Yield the tests in which this number of commits is made under the locks of a catalog."""
    for test in COMMITS_TESTS:
        yield Piece("commits", f"{test} {number}", lambda test=test: committed(test, number))  # type: ignore[misc]


def committed(test: str, number: int) -> Result:
    return {"commits": number, **tests(test, "--night", PENSTOCK_MIXED_COMMITS=str(number))}


def fuzz(folder: Path, minutes: float) -> Iterator[Piece]:
    """Yield the fuzz tests of one file each; together they last this long."""
    listed = python("-m", "pytest", "--collect-only", "-q", "tests/fuzz").stdout.splitlines()
    names = [line.partition("::") for line in listed if "::" in line]
    timed = [file for file, _, test in names if test.startswith(_TIMED)]
    seconds = minutes * 60 / max(len(timed), 1)
    for file in sorted({file for file, _, _ in names}):
        yield Piece("fuzz", file, lambda file=file: fuzzed(folder, file, seconds))  # type: ignore[misc]


def fuzzed(folder: Path, file: str, seconds: float) -> Result:
    log = folder / f"fuzz-{Path(file).stem}.jsonl"
    log.unlink(missing_ok=True)
    result = tests(file, "--night", PENSTOCK_FUZZ_SECONDS=str(seconds), PENSTOCK_FUZZ_LOG=str(log))
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    keep_failed(result["failures"])
    now = Path(f"{log}.now")
    if now.exists():  # the process ended while it tried an input
        result["failures"].append(f"ABORTED {now.read_text(encoding='utf-8')}")
        now.unlink()
    return {"inputs": sum(json.loads(line)["inputs"] for line in lines), **result, "failed": len(result["failures"])}


def others() -> Iterator[Piece]:
    """Yield the tests that belong to no other part and try more at night."""
    for name in OTHER_TESTS:
        yield Piece("others", name, lambda name=name: tests(name, "--night"))  # type: ignore[misc]
    for folder in PROPERTIES:
        words = (folder, "-m", "hypothesis", "--night")
        yield Piece("others", f"properties in {folder}", lambda words=words: tests(*words))  # type: ignore[misc]


def planted(seeds: int, minutes: float, jobs: int) -> Iterator[Piece]:
    """Yield the run of all mutants."""

    def run() -> Result:
        ran = python("-m", "tests.mutants", "--seeds", str(seeds), "--minutes", str(minutes), "--jobs", str(jobs))
        survived = [line for line in ran.stdout.splitlines() if line.startswith("survived: ")]
        rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
        if ran.returncode and not survived:
            survived = [ran.stdout[-2000:]]
        return {"mutants": len(rows) - 1, "failed": len(survived), "failures": survived, "table": rows}

    yield Piece("mutants", f"{seeds}", run)


def statements(first: int, engines: dict[str, int]) -> Iterator[Piece]:
    """Yield the scripts of SQL, for each engine about this many statements."""

    def play(engine: str, start: int, number: int) -> Result:
        ran = python("-m", "tests.statements", str(start), str(number), "--engine", engine)
        found = _RAN.search(ran.stdout)
        if found is None:
            return {"statements": 0, "failed": 1, "failures": [f"{engine} from {start} on: {ran.stdout[-2000:]}"]}
        seeds = _FAILED_SCRIPT.findall(ran.stdout)
        failures = [f"{engine} seed {seed}" for seed in seeds]
        return {"statements": int(found[1]), "failed": int(found[2]), "failures": failures}

    for engine, number in engines.items():
        last = first + -(-number // STEPS)
        for start in range(first, last, SCRIPTS):
            count = min(SCRIPTS, last - start)
            yield Piece(
                "statements",
                f"{engine} {start} {count}",
                lambda engine=engine, start=start, count=count: play(engine, start, count),  # type: ignore[misc]
            )


def chosen_parts(text: str) -> list[str]:
    """Return the parts in a list that is separated by commas; an error of argparse names the known ones."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"{part!r} is not a part of the night: choose from {', '.join(PARTS)}")
    return parts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".build/nightly", help="log and summary; what is in the log is done"
    )
    parser.add_argument("--parts", type=chosen_parts, default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes of stories, faults, orders and mutants")
    parser.add_argument("--first-seed", type=int, default=1_000_000)
    parser.add_argument("--stories", type=int, default=200_000)
    parser.add_argument("--pipeline-stories", type=int, default=20_000)
    parser.add_argument("--peer-stories", type=int, default=2000, help="stories that all peers play in turn")
    parser.add_argument("--statements", type=int, default=10_000, help="statements of SQL without Spark")
    parser.add_argument("--spark-statements", type=int, default=10_000, help="statements of Spark SQL")
    parser.add_argument("--kills", type=int, default=500, help="rounds, each of up to four kills")
    parser.add_argument("--commits", type=int, default=400, help="commits under the locks of each kind of catalog")
    parser.add_argument("--fuzz-minutes", type=float, default=60)
    parser.add_argument("--mutant-seeds", type=int, default=5000)
    parser.add_argument("--mutant-minutes", type=float, default=30)
    given = parser.parse_args()
    night = Night(given.folder, given.jobs)
    pieces: dict[str, Callable[[], Iterator[Piece]]] = {
        "stories": lambda: stories(given.first_seed, given.stories),
        "pipelines": lambda: stories(
            given.first_seed, given.pipeline_stories, "pipelines", "pipeline_stories", PIPELINES
        ),
        "peers": lambda: peers(given.first_seed, given.peer_stories),
        "statements": lambda: statements(
            given.first_seed, {"duckdb": given.statements, "spark": given.spark_statements}
        ),
        "faults": lambda: simulated("faults", FAULTS_TESTS),
        "orders": lambda: simulated("orders", ORDERS_TESTS),
        "kills": lambda: kills(given.kills),
        "commits": lambda: commits(given.commits),
        "fuzz": lambda: fuzz(given.folder, given.fuzz_minutes),
        "others": others,
        "mutants": lambda: planted(given.mutant_seeds, given.mutant_minutes, given.jobs),
    }
    for part in given.parts:
        night.run(list(pieces[part]()), jobs=given.jobs if part in {"stories", "pipelines", "faults", "orders"} else 1)
    summary = night.summarize()
    print(
        json.dumps(
            {
                part: {name: value for name, value in item.items() if name != "failures"}
                for part, item in summary.items()
            },
            indent=2,
        )
    )
    return 1 if any(item["failed"] for item in summary.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
