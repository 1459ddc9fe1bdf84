"""Run the benchmarks beside their peers, write their tables into benchmarks/RESULTS.md and five rows into the README.

    python -m benchmarks.all [--only NAME ...] [--list] [--busy] [--without-peers]

Each benchmark is a process. Its table is written as soon as it has ended, so a run that is stopped keeps what it has
measured. Figures of an idle machine are not replaced by those of a busy one, unless with `--busy`. A benchmark that
cannot run here, or whose peer cannot, is named with the reason, and its table stays as it is. `--without-peers` runs
ours alone where a benchmark can do that; its table then lacks the peer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from benchmarks import results_page
from benchmarks.figures import VARIABLE, recorded
from benchmarks.results_page import Conditions, IdleFiguresKept

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 5.0
# Other work than this, in cores, makes a machine busy.
BUSY_CORES = 0.25
OURS = ("--only", "ours")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark with its arguments, and what it needs: programs and Python packages."""

    name: str
    module: str
    arguments: str = ""
    needs: tuple[str, ...] = ()
    peer: str = ""
    peer_needs: tuple[str, ...] = ()
    without_peer: tuple[str, ...] | None = None  # the arguments that leave the peer out; None: it cannot be left out

    @property
    def command(self) -> str:
        return f"python -m benchmarks.{self.module} {self.arguments}".rstrip()


JAVA = ("java", "javac", "mvn")
BENCHMARKS = (
    Benchmark("table", "table_io", "1000000", peer="pypaimon", peer_needs=("uv",)),
    Benchmark("table-reads", "table_reads", peer="pypaimon-rust", peer_needs=("$PEER",), without_peer=()),
    Benchmark("queries", "queries", peer="pypaimon-rust", peer_needs=("$PEER",), without_peer=()),
    Benchmark("compaction", "compaction"),
    Benchmark("compaction-java", "beside_java", peer="Java Paimon", peer_needs=JAVA),
    Benchmark("file-formats", "formats", "100000"),
    Benchmark("hashes", "hash_rows"),
    Benchmark("decode", "decode", "20000"),
    Benchmark("decode-keyed", "decode_keyed", "20000"),
    Benchmark("stages", "stages", "100000"),
    Benchmark("lookups", "lookups"),
    Benchmark("moving-keys", "moving_keys"),
    Benchmark("history", "history", "100000"),
    Benchmark("write-memory", "write_memory"),
    Benchmark("sorting", "sorting", "1000000"),
    Benchmark("keyless-changes", "keyless_changes"),
    Benchmark("stream-inserts", "stream_inserts"),
    Benchmark("iceberg", "iceberg", "150"),
    Benchmark("catalogs", "catalogs", "50"),
    Benchmark("kafka", "kafka_job", "500000", JAVA[:1], "Flink", JAVA, OURS),
    Benchmark("kafka-steady", "kafka_job", "1000000 --batch 250000 --only ours", JAVA[:1]),
    Benchmark("kafka-spark", "kafka_job", "1000000 --batch 250000 --only ours --flag=--spark=always", JAVA[:1]),
    Benchmark("executors", "executors", "1000000 1 2", JAVA[:1]),
    Benchmark("kafka-files", "kafka_job", "400000 --batch 100000 --write-only --bucket 50 --only ours", JAVA[:1]),
    Benchmark(
        "kafka-tables", "kafka_job", "400000 --batch 100000 --write-only --bucket 1 --tables 200 --only ours", JAVA[:1]
    ),
    Benchmark("kafka-start", "kafka_job", "20000 --again --only ours", JAVA[:1]),
    Benchmark("starts", "starts", "5", ("pyspark", "java")),
    Benchmark("kills", "kills", "3", ("pyspark", "java")),
    Benchmark("known-tables", "known_tables", "10000", ("pyspark", "java")),
    Benchmark("quiet", "quiet", "30", ("pyspark", "java")),
    Benchmark("freshness", "trickle", "1000 80", JAVA[:1]),
    Benchmark("freshness-continuous", "trickle", "1000 80 --trigger continuous", JAVA[:1]),
    Benchmark("freshness-store", "trickle", "1000 25 --trigger continuous --store 20", JAVA[:1]),
    Benchmark(
        "freshness-sources",
        "source_freshness",
        "--rate 100 --seconds 40",
        ("pymysql", "psql", "pymongo", "pulsar", "java"),
    ),
    Benchmark(
        "source-share",
        "source_share",
        "--rows 10 --batches 40",
        ("pymysql", "psql", "pymongo", "pulsar", "java"),
    ),
    Benchmark("background", "trickle", "1000 30 write-only background --turns 2", JAVA[:1]),
    Benchmark("mysql", "mysql", "1000000 500000", ("pymysql",)),
    Benchmark("postgres", "postgres", "1000000 500000", ("psql",)),
    Benchmark("postgres-job", "postgres_job", "10000000", ("psql", "java")),
    Benchmark(
        "postgres-flink",
        "postgres_flink",
        "300000 300000 --less 100000",
        ("psql", "java"),
        "Flink CDC",
        JAVA,
    ),
    Benchmark("demand", "demand", "150000", ("pymysql", "psql")),
    Benchmark("mysql-log", "mysql_log", "50000", ("pymysql",), "mysql-replication"),
    Benchmark("mysql-tasks", "mysql_tasks", "600000", ("pymysql",)),
    Benchmark("lineitem", "lineitem", "1 3", ("pymysql", "uv", "java")),
    Benchmark("mysql-job", "mysql_job", "900000 600000 --less 300000", ("pymysql", "java"), "Flink CDC", JAVA, OURS),
    Benchmark(
        "mysql-job-log",
        "mysql_job",
        "900000 6000000 --less 1500000 --work log",
        ("pymysql", "java"),
        "Flink CDC",
        JAVA,
        OURS,
    ),
    Benchmark("mysql-large", "mysql_job", "10000000 0 --only ours", ("pymysql", "java")),
    Benchmark("mongodb", "mongodb", "20000", ("pymongo",)),
    Benchmark("pulsar", "pulsar", "100000 3", ("pulsar", "java")),
    Benchmark("spark-catalog", "spark_catalog", "", ("pyspark", "java")),
)


def missing(needs: Sequence[str]) -> list[str]:
    """Return what is not here: a program, a Python package, or a variable of the environment ($NAME)."""

    def here(need: str) -> bool:
        if need.startswith("$"):
            return bool(os.environ.get(need[1:]))
        return which(need) is not None or find_spec(need) is not None

    return [need for need in needs if not here(need)]


def arguments_of(benchmark: Benchmark) -> tuple[list[str] | None, str]:
    """Return the arguments with which a benchmark can run here, or None, and what is left out for which reason."""
    if lacking := missing(benchmark.needs):
        return None, f"{benchmark.name}: {', '.join(lacking)} is missing"
    words = benchmark.arguments.split()
    lacking = missing(benchmark.peer_needs)
    if not lacking:
        return words, ""
    reason = f"{benchmark.peer}: {', '.join(lacking)} is missing"
    return (None if benchmark.without_peer is None else [*words, *benchmark.without_peer]), reason


def cores_in_use() -> float:
    """Return how many cores are busy, measured for some seconds in which this process does nothing."""

    def ticks() -> int:
        user, nice, system, _idle, _wait, irq, soft, steal = map(
            int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        )
        return user + nice + system + irq + soft + steal

    before, began = ticks(), time.monotonic()
    time.sleep(SAMPLE_SECONDS)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)


@dataclass(slots=True)
class Suite:
    """A run of benchmarks, which writes a page of results and those of its rows that the README has."""

    page: Path
    readme: Path
    allow_busy: bool
    without_peers: bool = False
    used: Callable[[], float] = cores_in_use
    load: float = 0.0

    def run(self, benchmark: Benchmark) -> str:
        """Run a benchmark and write its table. Return the problem, or an empty text."""
        words, left_out = arguments_of(benchmark)
        if words is None or (left_out and not self.without_peers):
            return f"left out: {left_out}"
        try:
            return self._run(benchmark, words, left_out)
        except IdleFiguresKept as kept:
            return f"left out: {kept}"

    def _run(self, benchmark: Benchmark, words: list[str], left_out: str) -> str:
        busy = self.used() > BUSY_CORES
        self._check(benchmark, busy)
        with tempfile.TemporaryDirectory(prefix="penstock-figures-") as folder:
            file = Path(folder) / "figures"
            command = [sys.executable, "-m", f"benchmarks.{benchmark.module}", *words]
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(file)}, check=False)
            figures = recorded(file)
        if done.returncode or not figures:
            return f"failed: {benchmark.name}: exit code {done.returncode}, {len(figures)} figures; not written"
        busy = busy or self.used() > BUSY_CORES
        self._check(benchmark, busy)
        conditions = Conditions.now(busy=busy, load=self.load, left_out=left_out)
        text = self.page.read_text(encoding="utf-8")
        new = results_page.table(benchmark.command, conditions, figures)
        text = results_page.replaced(text, benchmark.name, new)
        self.page.write_text(text, encoding="utf-8")
        few = results_page.with_figures_of(self.readme.read_text(encoding="utf-8"), text)
        self.readme.write_text(few, encoding="utf-8")
        return f"without its peer: {left_out}" if left_out else ""

    def _check(self, benchmark: Benchmark, busy: bool) -> None:
        text = self.page.read_text(encoding="utf-8")
        results_page.check_replaceable(text, benchmark.name, busy=busy, allow_busy=self.allow_busy)


def listed(benchmark: Benchmark) -> str:
    words, reason = arguments_of(benchmark)
    condition = "" if words is None else " unless --without-peers"
    state = f"   # left out{condition}: {reason}" if reason else ""
    return f"{benchmark.name:16} {benchmark.command}{state}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all")
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="run this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the benchmarks, and what cannot run here")
    parser.add_argument("--busy", action="store_true", help="replace figures of an idle machine on a busy one, too")
    parser.add_argument("--without-peers", action="store_true", help="run ours alone where a peer is missing")
    parsed = parser.parse_args(arguments)
    chosen = [benchmark for benchmark in BENCHMARKS if not parsed.only or benchmark.name in parsed.only]
    if parsed.list:
        print(*map(listed, chosen), sep="\n")
        return 0
    suite = Suite(results_page.PATH, ROOT / "README.md", parsed.busy, parsed.without_peers, load=os.getloadavg()[0])
    results_page.versions()
    problems = []
    for benchmark in chosen:
        print(f"\n=== {benchmark.name}: {benchmark.command}", flush=True)
        if problem := suite.run(benchmark):
            problems.append(problem)
            print(f"!!! {problem}", flush=True)
    print(f"\n{len(chosen)} benchmarks", *(f"!!! {problem}" for problem in problems), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
