"""What an idle run of a pipeline costs: start, find nothing, end. A part of every bounded run. And what the demo costs.

    python -m benchmarks.starts [TURNS] [--beside TREE]

`penstock warm` should have been run before. With `--beside` another source tree takes turns with this one, so that a
busy machine slows both; the ratio of their CPU seconds then says what a change gained.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, record
from benchmarks.processes import Cost, cost_of

HERE = Path(__file__).resolve().parents[1]
DAY = HERE / "pipelines/demo/morning.json"
CPU_GOAL, WALL_GOAL = 3.5, 3.0
DEMO_GOAL = 15.0
FILE = """
pipeline: {{name: idle, until: caught-up, parallelism: 2}}
source: {{type: files, path: {folder}/in, value.format: canal-json}}
sink:
  catalog: {{warehouse: {folder}/warehouse}}
  database: shop
  table-options: {{bucket: '1'}}
"""


def run(tree: Path, folder: Path) -> Cost:
    """Run the pipeline with the modules of a tree."""
    return cost_of(command_of(folder), folder / "log", environment=environment_of(tree))


def run_demo(folder: Path) -> Cost:
    """Run what `make demo` runs when its environment is there."""
    command = [sys.executable, "-m", "penstock.pipelines.commands.main", "demo", "--folder", str(folder)]
    return cost_of(command, folder.with_suffix(".log"), environment=environment_of(HERE))


def command_of(folder: Path) -> list[str]:
    return [sys.executable, "-m", "penstock.pipelines.commands.main", "run", str(folder / "pipeline.yaml")]


def environment_of(tree: Path) -> dict[str, str]:
    # Without the second variable Python looks for modules in the current folder first.
    return {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}


def prepared(folder: Path, tree: Path) -> Path:
    """Return the folder of a pipeline that has committed a batch and finds nothing new."""
    (folder / "in").mkdir(parents=True)
    (folder / "in/morning.json").write_bytes(DAY.read_bytes())
    (folder / "pipeline.yaml").write_text(FILE.format(folder=folder))
    run(tree, folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("turns", type=int, nargs="?", default=5)
    parser.add_argument("--beside", type=Path, help="another source tree, to compare with")
    given = parser.parse_args()
    trees = {"this tree": HERE} | ({"beside": given.beside.resolve()} if given.beside else {})
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: prepared(Path(scratch, name.replace(" ", "-")), tree) for name, tree in trees.items()}
        costs: dict[str, list[Cost]] = {name: [] for name in trees}
        for _ in range(given.turns):
            for name, tree in trees.items():
                costs[name].append(run(tree, folders[name]))
                print(f"{name:<10} {costs[name][-1]}", flush=True)
        demo = min((run_demo(Path(scratch, f"demo{turn}")) for turn in range(2)), key=lambda cost: cost.wall)
    best = {name: (min(cost.cpu for cost in ran), min(cost.wall for cost in ran)) for name, ran in costs.items()}
    for name, ran in costs.items():
        median = statistics.median(cost.cpu for cost in ran)
        print(f"{name:<10} best {best[name][0]:.2f} CPU-s, {best[name][1]:.2f} s; median {median:.2f} CPU-s")
    cpu, wall = best["this tree"]
    other = best.get("beside", (None, None))
    record(Figure("idle run: CPU", cpu, "CPU-s", other[0], "before", CPU_GOAL, less=True))
    record(Figure("idle run: wall", wall, "s", other[1], "before", WALL_GOAL, less=True))
    print(f"demo       {demo}")
    record(Figure("`make demo`: wall", demo.wall, "s", goal=DEMO_GOAL, less=True))


if __name__ == "__main__":
    main()
