"""What a running pipeline costs while its source has nothing new: `trigger: continuous`, no batch.

    python -m benchmarks.quiet [SECONDS] [--beside TREE]

The share of a core is what all processes of the pipeline used in SECONDS, SETTLING seconds after it has committed a
first batch; then without Spark and with it. The third pipeline has its warehouse in an object store, whose requests in
that time are counted. With `--beside` another source tree is measured right after this one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import object_store
from benchmarks.figures import Figure, record
from benchmarks.processes import cost_of, used
from benchmarks.starts import DAY, HERE, command_of, environment_of

GOAL = 1.0  # percent of a core
SETTLING = 15.0
FILE = """
pipeline: {{name: quiet, trigger: continuous, parallelism: 2, spark: {spark}, checkpoint: {folder}/checkpoint}}
source: {{type: files, path: {folder}/in, value.format: canal-json}}
sink:
  catalog: {{warehouse: {warehouse}, options: {options}}}
  database: shop
  table-options: {{bucket: '1'}}
"""


@dataclass(slots=True)
class Quiet:
    """Watches the processes of a pipeline, from the time at which it has been quiet for a while."""

    log: Path
    seconds: float
    count: Callable[[], int] = lambda: 0  # of the requests to a store so far
    committed: float = 0.0
    samples: list[tuple[float, dict[int, float]]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    def look(self, session: int) -> None:
        now = time.monotonic()
        if not self.committed and b"event=batch " in self.log.read_bytes():
            self.committed = now
        # Until it is asked to end: processes that have ended would take their CPU seconds with them.
        if self.committed and now - self.committed > SETTLING and not self.over():
            self.samples.append((now, used(session)))
            self.requests.append(self.count())

    def over(self) -> bool:
        return bool(self.samples) and self.samples[-1][0] - self.samples[0][0] >= self.seconds

    @property
    def percent(self) -> float:
        (began, before), (ended, after) = self.samples[0], self.samples[-1]
        spent = sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
        return 100 * spent / (ended - began)


def watched(tree: Path, folder: Path, quiet: Quiet, spark: str, catalog: tuple[str, dict[str, str]]) -> Quiet:
    """Run a pipeline that commits one batch, and then finds nothing, until it has been watched for long enough."""
    (folder / "in").mkdir(parents=True)
    (folder / "in/morning.json").write_bytes(DAY.read_bytes())
    warehouse, options = catalog
    text = FILE.format(folder=folder, spark=spark, warehouse=warehouse, options=options)
    (folder / "pipeline.yaml").write_text(text)
    cost_of(command_of(folder), quiet.log, until=quiet.over, look=quiet.look, environment=environment_of(tree))
    batches = quiet.log.read_text().count("event=batch ")
    if batches != 1:
        raise ValueError(f"{batches} batches instead of one: the source was not quiet")
    return quiet


def measured(tree: Path, folder: Path, seconds: float, spark: str) -> float:
    folder.mkdir()
    quiet = Quiet(folder / "log", seconds)
    return watched(tree, folder, quiet, spark, (f"{folder}/warehouse", {})).percent


def requests_in(folder: Path, seconds: float) -> int:
    """Return how many requests a store gets from a quiet pipeline, which has committed three tables there."""
    with object_store.running(folder / "store", 0) as store:
        quiet = Quiet(folder / "log", seconds, lambda: len(store.requests))
        watched(HERE, folder, quiet, "when-needed", (f"s3://{object_store.BUCKET}/warehouse", store.options))
        assert quiet.requests[0] > 0
        return quiet.requests[-1] - quiet.requests[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--beside", type=Path, help="another source tree, to compare with")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for how, spark in (("without Spark", "when-needed"), ("with Spark", "always")):
            ours = measured(HERE, scratch / f"ours-{spark}", given.seconds, spark)
            print(f"{how}: this tree {ours:.2f} % of a core", flush=True)
            other = None
            if given.beside:
                other = measured(given.beside.resolve(), scratch / f"beside-{spark}", given.seconds, spark)
                print(f"{how}: beside {other:.2f} % of a core", flush=True)
            record(Figure(f"quiet source, {how}: CPU", ours, "% of a core", other, "before", GOAL, less=True))
        requests = requests_in(scratch / "requests", given.seconds)
    print(f"{requests} requests to the object store in {given.seconds:g} s")
    what = f"quiet source, three tables in an object store: requests in {given.seconds:g} s"
    record(Figure(what, requests, "", goal=0.0, less=True))


if __name__ == "__main__":
    main()
