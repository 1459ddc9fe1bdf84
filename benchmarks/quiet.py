"""What a running pipeline costs while its source has nothing new: `trigger: continuous`, no batch.

    python -m benchmarks.quiet [SECONDS] [--beside TREE]

The share of a core is what all processes of the pipeline used in SECONDS, SETTLING seconds after the session was there.
With `--beside` another source tree is measured right after this one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import Figure, record
from benchmarks.processes import cost_of, used
from benchmarks.starts import HERE, command_of, environment_of, prepared

GOAL = 1.0  # percent of a core
SETTLING = 15.0


@dataclass(slots=True)
class Quiet:
    """Watches the processes of a pipeline, from the time at which it has been quiet for a while."""

    log: Path
    seconds: float
    started: float = 0.0
    samples: list[tuple[float, dict[int, float]]] = field(default_factory=list)

    def look(self, session: int) -> None:
        now = time.monotonic()
        if not self.started and b"event=spark_started" in self.log.read_bytes():
            self.started = now
        # Until it is asked to end: processes that have ended would take their CPU seconds with them.
        if self.started and now - self.started > SETTLING and not self.over():
            self.samples.append((now, used(session)))

    def over(self) -> bool:
        return bool(self.samples) and self.samples[-1][0] - self.samples[0][0] >= self.seconds

    @property
    def percent(self) -> float:
        (began, before), (ended, after) = self.samples[0], self.samples[-1]
        spent = sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
        return 100 * spent / (ended - began)


def measured(tree: Path, folder: Path, seconds: float) -> float:
    prepared(folder, tree)
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("until: caught-up", "trigger: continuous"))
    quiet = Quiet(folder / "log", seconds)
    cost_of(command_of(folder), quiet.log, until=quiet.over, look=quiet.look, environment=environment_of(tree))
    return quiet.percent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float, nargs="?", default=20.0)
    parser.add_argument("--beside", type=Path, help="another source tree, to compare with")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ours = measured(HERE, Path(scratch, "ours"), given.seconds)
        print(f"this tree  {ours:.2f} % of a core", flush=True)
        other = measured(given.beside.resolve(), Path(scratch, "beside"), given.seconds) if given.beside else None
        if other is not None:
            print(f"beside     {other:.2f} % of a core")
    record(Figure("quiet source: CPU", ours, "% of a core", other, "before", GOAL, less=True))


if __name__ == "__main__":
    main()
