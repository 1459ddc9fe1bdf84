"""Plays a story of a pipeline beside the model, and checks all tables after every step."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError
from penstock.pipelines.api.dead_letters import letters_of, settle
from penstock.pipelines.api.replay_dead_letters import replay
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from tests.invariants import check_invariants
from tests.pipeline_stories.log_source import LOGS
from tests.pipeline_stories.model import DATABASE, Cells, Model, cells
from tests.pipeline_stories.process import Driver, SparkLog, fault_at, merged, opened
from tests.pipeline_stories.story import Step, Story
from tests.pipeline_stories.tellers import format_of, told
from tests.simulation.store import Died, Disk, Fault, Faults, Operation, never

ROOT = "/story"
LETTERS = "__penstock_dead_letters"
# When a row came and where it stood in the log: the model knows no clock.
UNCOMPARED = {"_deleted_at", "valid_from", "valid_to", "_position", "_end_position"}
MOST_ATTEMPTS = 3  # of a run that a fault may have stopped


class Performance:
    """A performance of a story.

    `trace` is the same for the same story and the same PYTHONHASHSEED: tables are written in the order of sets.
    """

    def __init__(self, story: Story) -> None:
        self.story, self.disk = story, Disk()
        self.model, self.sections = Model.of(story), dict(story.sections)
        self.log: list[Operation] = []
        self.done: list[str] = []
        self.spark = self._new_log()
        self._sent: list[tuple[Any, str]] = []  # changes with their positions that no run has read yet
        self._processes = 0
        LOGS.clear()  # of the last story in this process
        LOGS[self._name] = {str(number): [] for number in range(story.partitions)}

    @property
    def _name(self) -> str:
        return f"story-{self.story.seed}"

    def _new_log(self) -> SparkLog:
        number = len(self.done)
        return SparkLog(self.disk, f"{ROOT}/checkpoint-{number}", f"checkpoint-{number}")

    def run(self) -> Performance:
        # Key indexes and lookup files are stored on local disk: no story must find those of another.
        former = tempfile.tempdir
        with tempfile.TemporaryDirectory(prefix="penstock-story-") as folder:
            tempfile.tempdir = folder
            try:
                for number, step in enumerate([*self.story.steps, {"op": "run"}, {"op": "check_tables"}], 1):
                    self._step(number, step)
            finally:
                tempfile.tempdir = former
        return self

    def _step(self, number: int, step: Step) -> None:
        try:
            self.done.append(f"{step['op']} {getattr(self, '_' + step['op'])(step)}")
            self._check()
        except Exception as error:
            raise StoryFailed(self.story, number, step, error) from error

    @property
    def trace(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self.disk.files):
            digest.update(path.encode() + self.disk.files[path][0])
        lines = [*self.done, *map(str, self.log), digest.hexdigest()]
        return re.sub(r"/\.probe-[0-9a-f-]+", "/.probe", "\n".join(lines))  # the name of a file that is deleted at once

    # steps

    def _send(self, step: Step) -> int:
        for partition, change in step["messages"]:
            place = LOGS[self._name][str(partition)]
            self._sent.append((change, f"log/{partition}@{len(place)}"))
            place.append(told(self.story.kind, change, self.story.keys.get(change.get("table", ""), ())))
        return len(step["messages"])

    def _run(self, step: Step) -> str:
        """Run until caught up; where a fault stops the driver, the next one continues without faults."""
        return self._attempts(step, lambda: self._one_run(step))

    def _attempts(self, step: Step, run: Callable[[], None]) -> str:
        outcomes = []
        for attempt in range(MOST_ATTEMPTS):
            faults = self._faults(step) if attempt == 0 else never
            before = len(self.log)
            outcome = self._outcome(faults, run)
            outcomes.append(outcome)
            struck = any(one.fault for one in self.log[before:])
            if outcome == "done":
                break
            if not struck and "zombie" not in step:
                raise AssertionError(f"the run fails without a fault: {outcome}")
            self._check_tables()
        self._apply_sent()
        return " ".join(outcomes)

    def _outcome(self, faults: Faults, run: Callable[[], None]) -> str:
        with self._process(faults):
            try:
                run()
            except Died:
                return "died"
            except (PenstockError, OSError) as error:
                return f"{type(error).__name__}: {error}"
        return "done"

    def _one_run(self, step: Step) -> None:
        between = iter(step.get("between", ()))

        def meddle() -> None:
            for action in between:
                self._meddle(action)
                return

        sections = {"pipeline": {"max-batch": {"rows": step["limit"]}}} if "limit" in step else {}
        with self._driver(sections, meddle).started() as driver:
            if step.get("zombie"):
                self._overtaken(driver)
            else:
                driver.run()

    def _overtaken(self, zombie: Driver) -> None:
        """Let another driver commit all, after the tasks of this one's batch are done; then go on with this one."""
        if not zombie.planned():
            return
        result, number = zombie.tasks_done(), self.spark.done
        with self._driver({}, lambda: None).started() as other:
            other.run()
        zombie.driver.take(number, result)

    def _meddle(self, action: str) -> None:
        """Let another process work on the tables."""
        for table in self._tables():
            match action:
                case "compact":
                    table.compact(full=True)
                case "expire":
                    expire_snapshots(table.store, retain_max=1, retain_min=1, older_than=self.disk.clock())

    def _compact(self, step: Step) -> str:
        with self._process(never):
            self._meddle("compact")
        return "done"

    def _expire(self, step: Step) -> str:
        with self._process(never):
            self._meddle("expire")
        return "done"

    def _replay(self, step: Step) -> str:
        """Replay the dead letters, after the rules have changed."""
        self.sections = {name: value for name, value in self.sections.items() if name != "expect"}
        self.model.sections = self.sections
        if f"{DATABASE}.{LETTERS}" not in {table.name for table in self._found()} or self._sent:
            return "nothing"

        def run() -> None:
            table = next(one for one in self._tables() if one.name.endswith(LETTERS))
            letters, latest = letters_of(table.scan().to_arrow()), table.latest_snapshot
            if letters and latest is not None:
                settle(table, letters, replay(self._spec({}), letters, latest).bad, "story")

        outcome = self._attempts(step, run)
        self.model.replay()
        return outcome

    def _renew(self, step: Step) -> str:
        """Lose the checkpoint, and continue with a new one from the position of the tables."""
        if not self.spark.done or not any(table.latest_snapshot for table in self._found()):
            return "nothing"
        self.spark = self._new_log()
        self.sections = merged(self.sections, {"pipeline": {"resume-from-tables": True}})
        return self._run({"op": "run"})

    def _faults(self, step: Step) -> Faults:
        if "fault" not in step:
            return never
        name, nth, kind = step["fault"]
        return fault_at(name, nth, Fault[kind])

    def _apply_sent(self) -> None:
        for change, position in self._sent:
            self.model.take(change, position)
        self._sent = []

    # the pipeline

    @contextmanager
    def _process(self, faults: Faults) -> Iterator[None]:
        self._processes += 1
        with opened(self.disk, f"{self.story.seed} {self._processes}", faults, self.log):
            yield

    def _driver(self, sections: Mapping[str, Any], between: Callable[[], None]) -> Driver:
        return Driver(self._spec(sections), self.spark, self.story.tasks, self.story.writers, between)

    def _spec(self, sections: Mapping[str, Any]) -> PipelineSpec:
        base = {
            "source": {"type": "story-log", "log": self._name, "value.format": format_of(self.story.kind)},
            "pipeline": {"name": "story", "checkpoint": self.spark.folder, "until": "caught-up"},
            "sink": {"catalog": {"warehouse": f"{ROOT}/warehouse"}, "database": DATABASE, "no-primary-key": "append"},
        }
        return parsed(merged(merged(merged(base, {"source": self.story.source}), self.sections), sections))

    def _tables(self) -> list[Table]:
        """Return the tables as the current process sees them."""
        warehouse = CatalogSettings.of(f"{ROOT}/warehouse", {})
        names = sorted(warehouse.tables(DATABASE)) if DATABASE in warehouse.databases() else []
        return [Table(warehouse.opened(name)) for name in names]

    def _found(self) -> list[Table]:
        with self._process(never):
            return self._tables()

    # checks

    def _check(self) -> None:
        if self._sent:
            return
        found = {table.name.partition(".")[2]: table for table in self._found()}
        with self._process(never):
            for name in sorted(self.model.targets.keys() | found.keys() - {LETTERS}):
                rows = found[name].scan().to_arrow().to_pylist() if name in found else []
                target = self.model.targets.get(name)
                self._compare(name, rows, target.expected(typed=self.model.typed) if target else Counter())
            letters = found[LETTERS].scan().to_arrow().to_pylist() if LETTERS in found else []
        positions = Counter(row["source_position"] for row in letters)
        if positions != Counter(list(self.model.letters)):
            raise AssertionError(f"dead letters: {difference(positions, Counter(list(self.model.letters)))}")

    def _check_tables(self, step: Step | None = None) -> None:
        with self._process(never):
            for table in self._tables():
                check_invariants(table)

    @staticmethod
    def _compare(name: str, rows: list[dict[str, Any]], expected: Counter[Cells]) -> None:
        found = Counter(cells({key: row[key] for key in row.keys() - UNCOMPARED}) for row in rows)
        if found != expected:
            raise AssertionError(f"rows of {name}: {difference(found, expected)}")


def difference(found: Counter[Any], expected: Counter[Any]) -> str:
    lost, extra = expected - found, found - expected
    return f"lost {sorted(map(str, lost.elements()))[:3]}, extra {sorted(map(str, extra.elements()))[:3]}"


class StoryFailed(AssertionError):
    """The failure of a story. `cause` is its kind: a shorter story with the same cause fails in the same way."""

    def __init__(self, story: Story, number: int, step: Step, error: Exception) -> None:
        text = str(error).splitlines() or [""]
        shown = str(step)[:200]
        super().__init__(f"seed {story.seed}, step {number} {shown}: {type(error).__name__}: " + "\n".join(text[:8]))
        self.number, self.error = number, error

    @property
    def cause(self) -> str:
        first = (str(self.error).splitlines() or [""])[0]
        words = re.sub(r"[0-9]+", "", first.partition(": lost")[0])
        kinds = re.findall(r"(?:lost|extra) \[.", first)
        return " ".join([type(self.error).__name__, words[:60], *kinds])
