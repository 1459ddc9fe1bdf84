"""Plays a story of a pipeline beside the model, and checks all tables after every step."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from penstock.errors import PenstockError
from penstock.pipelines.api.dead_letters import letters_of, settle
from penstock.pipelines.api.replay_dead_letters import ended, finished, replay
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.batch_identity import LOOKUPS, BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.mapping import lookups
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from tests.invariants import check_invariants
from tests.pipeline_stories.checks import LETTERS, check_counts, check_tables
from tests.pipeline_stories.dimensions import DIMENSION, Dimension, Found
from tests.pipeline_stories.failure import StoryFailed
from tests.pipeline_stories.local_process import LocalProcess
from tests.pipeline_stories.log_source import LOGS, MARKER
from tests.pipeline_stories.model import DATABASE, Model
from tests.pipeline_stories.names import own_name, renamed_routes
from tests.pipeline_stories.process import Driver, SparkLog, fault_at, forget, merged, opened
from tests.pipeline_stories.story import Change, Step, Story
from tests.pipeline_stories.tellers import format_of, told
from tests.simulation.store import Died, Disk, Fault, Faults, Operation, never

ROOT = "/story"
RETRY: Mapping[str, Any] = {"pipeline": {"retry-parked": True}}
STOPPED = "nothing of the batch was committed"
MOST_ATTEMPTS = 4  # of a run that a fault may have stopped


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
        self._reports: dict[tuple[str, int], BatchReport] = {}  # by checkpoint and batch
        self._counts_all = True  # whether each batch has a report
        self._parked: set[str] = set()
        self._parks = False  # whether a table was parked
        self._processes = 0
        self.dimension = Dimension(f"{ROOT}/warehouse")
        self._looked_up: Found = {}
        self._dropped: set[str] = set()
        self._renamed = 0  # how often tables were renamed
        LOGS.clear()  # of the last story in this process
        LOGS[self._name] = {str(number): [] for number in range(story.partitions)}

    @property
    def _name(self) -> str:
        return f"story-{self.story.seed}"

    def _new_log(self) -> SparkLog:
        return SparkLog(self.disk, f"{ROOT}/checkpoint-{len(self.done)}")

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
            if "marker" in change:
                place.append(MARKER)
                continue
            self._sent.append((change, f"log/{partition}@{len(place)}"))
            place.append(told(self.story.kind, change, self.story.keys.get(change.get("table", ""), ())))
        return len(step["messages"])

    def _run(self, step: Step) -> str:
        """Run until caught up; where a fault stops the driver, the next one continues without faults."""
        late = iter([step["late"]] if "late" in step else [])

        def sleep(_: float) -> None:
            for change in late:
                self._meddle(change)

        with patch.object(lookups, "sleep", sleep):
            return self._run_as_told(step)

    def _run_as_told(self, step: Step) -> str:
        ways = iter((step, {**step, "local": step.get("again_local", step.get("local", False))}))
        outcome = self._attempts(step, lambda: self._one_run(next(ways, step)))
        if self._parked and self._stops and (self.model.stops or step.get("open")):
            self._forgive()
        if self._parked and not step.get("leaves_parked"):
            again: Step = {"op": "run"}
            outcome += f" parked {sorted(self._parked)} {self._attempts(again, lambda: self._one_run(again, RETRY))}"
            if self._parked:
                raise AssertionError(f"tables stay parked without a fault: {sorted(self._parked)}")
        return outcome

    def _attempts(self, step: Step, run: Callable[[], None]) -> str:
        outcomes = []
        for attempt in range(MOST_ATTEMPTS):
            faults = self._faults(step) if attempt == 0 else never
            before = len(self.log)
            outcome = self._outcome(faults, run)
            outcomes.append(outcome)
            struck = any(entry.fault for entry in self.log[before:])
            if STOPPED in outcome:
                self._forgive()
                continue
            if outcome == "done":
                break
            if not struck and "zombie" not in step:
                raise AssertionError(f"the run fails without a fault: {outcome}")
            self._check_tables()
        else:
            raise AssertionError(f"no run ends: {outcomes}")
        if not step.get("open"):
            self._apply_sent()
        return " ".join(outcomes)

    def _forgive(self) -> None:
        """Let the rule that has stopped the pipeline, or parked a table, only warn."""
        assert self._stops, "a rule stops the pipeline that there is not"
        rules = [
            {**section, "action": "warn"} if section["action"] == "fail" else section
            for section in self.sections["expect"]
        ]
        self.sections = {**self.sections, "expect": rules}

    @property
    def _stops(self) -> bool:
        return any(rule["action"] == "fail" for rule in self.sections.get("expect", ()))

    def _outcome(self, faults: Faults, run: Callable[[], None]) -> str:
        with self._process(faults):
            try:
                run()
            except Died:
                return "died"
            except (PenstockError, OSError) as error:
                return f"{type(error).__name__}: {error}"
        return "done"

    def _one_run(self, step: Step, sections: Mapping[str, Any] = MappingProxyType({})) -> None:
        between = iter(step.get("between", ()))

        def meddle() -> None:
            for action in between:
                self._meddle(action)
                return

        if "limit" in step:
            sections = merged(sections, {"pipeline": {"max-batch": {"rows": step["limit"]}}})
        torn = f"{DATABASE}.{self.model.target_name(step['torn'])}" if "torn" in step else None
        driver = self._driver(sections, meddle, is_open=step.get("open", False))
        if step.get("local") and not driver.is_open:
            # A zombie parks no tables: what it notes about them after the other one has gone on would be wrong.
            self._run_locally(driver, None if step.get("zombie") else torn, step.get("zombie"))
        else:
            with driver.started():
                if step.get("zombie"):
                    self._overtaken(driver, step["zombie"])
                else:
                    driver.run(torn)
        self._parked = set(self._parked_now())
        # Batches that tables receive later are not reported.
        self._counts_all &= not self._parked
        self._parks |= bool(self._parked)

    def _run_locally(self, driver: Driver, torn: str | None, zombie: str | None) -> None:
        """Run without Spark, and be overtaken by another driver before the first commit if this is a zombie."""
        overtakes = [zombie] if zombie else []

        def before_commit() -> None:
            if overtakes:
                self._overtake(overtakes.pop())
            driver.between()

        LocalProcess(driver, before_commit, torn).run()

    def _overtaken(self, zombie: Driver, by: str) -> None:
        """Let another driver commit all, after the tasks of this one's batch are done; then go on with this one."""
        if not zombie.planned():
            return
        result, number = zombie.tasks_done(), self.spark.done
        self._overtake(by)
        zombie.driver.take(number, result)

    def _overtake(self, by: str) -> None:
        other = self._driver({}, lambda: None)
        if by == "local":
            LocalProcess(other, lambda: None).run()
        else:
            with other.started():
                other.run()

    def _parked_now(self) -> Iterable[str]:
        with self._process(never):
            return CheckpointFolder(self.spark.folder).parked()

    def _meddle(self, action: str | Step) -> None:
        """Let another process work on the tables."""
        if not isinstance(action, str):
            self._dimension(action)
            forget()
            return
        for table in self._tables():
            match action:
                case "compact":
                    table.compact(full=True)
                case "expire":
                    expire_snapshots(table.store, retain_max=1, retain_min=1, older_than=self.disk.clock())

    def _dimension(self, step: Step) -> str:
        """Change the dimension, or create it again. Batches that are not done find only more snapshots of it."""
        if step["how"] not in {"write", "add"} and self.dimension.at and (self._sent or self._parked):
            return "nothing"
        with self._process(never):
            self.dimension.happen(step)
        return step["how"]

    def _compact(self, step: Step) -> str:
        with self._process(never):
            self._meddle("compact")
        return "done"

    def _expire(self, step: Step) -> str:
        with self._process(never):
            self._meddle("expire")
        return "done"

    def _empty(self, step: Step) -> str:
        """Let somebody truncate a target table, or drop it, between two runs: rows that come later are kept."""
        names = sorted({own_name(table.name) for table in self._found()} & self.model.targets.keys())
        # An aggregate cannot take back rows that it has lost.
        names = [name for name in names if self.model.targets[name].engine != "aggregation"]
        if self._sent or self._parked or not names:
            return "nothing"
        name = names[step["which"] % len(names)]
        with self._process(never):
            warehouse = CatalogSettings.of(f"{ROOT}/warehouse", {})
            if step["how"] == "drop":
                warehouse.backend.drop_table(f"{DATABASE}.{name}")
                self._dropped.add(f"{DATABASE}.{name}")
            else:
                Table(warehouse.opened(f"{DATABASE}.{name}")).truncate()
        self.model.targets[name].lose_rows()
        # A gap that was accepted for another table, and no run came since: this one is accepted with it.
        if step["how"] == "drop" and not self.sections.get("pipeline", {}).get("accept-gap"):
            outcome = self._outcome(never, lambda: self._one_run({"op": "run"}))
            assert outcome.startswith("CheckpointMismatch"), f"a run that lacks a table is not refused: {outcome}"
            self.sections = merged(self.sections, {"pipeline": {"accept-gap": True}})
        return f"{step['how']} {name}"

    def _rename(self, step: Step) -> str:
        """Let somebody rename target tables, and the pipeline file follow.

        Tables that exchange their names are refused, whether the file follows or not, and get them back.
        """
        names = sorted({own_name(table.name) for table in self._found()} & self.model.targets.keys())
        if self._sent or self._parked or not names:
            return "nothing"
        chosen = [names[(step["which"] + place) % len(names)] for place in range(min(step["tables"], len(names)))]
        if step["exchange"] and len(chosen) == 2:
            return self._exchange(chosen[0], chosen[1])
        self._renamed += 1
        new = {name: f"{name.partition('_r')[0]}_r{self._renamed}" for name in chosen}
        self._move(new.items())
        self.sections = merged(self.sections, renamed_routes(self.model, new))
        self.model.sections = self.sections
        self.model.targets = {new.get(name, name): target for name, target in self.model.targets.items()}
        self._dropped = {f"{DATABASE}.{new.get(name, name)}" for name in map(own_name, self._dropped)}
        return f"{sorted(new.items())}"

    def _exchange(self, one: str, other: str) -> str:
        # A checkpoint that knows no sources of the tables, or takes them as they are, does not refuse them.
        if self._parks or {"accept-gap", "resume-from-tables"} & self.sections.get("pipeline", {}).keys():
            return "nothing"
        moves = [(one, "away"), (other, one), ("away", other)]
        self._move(moves)
        for sections in ({}, renamed_routes(self.model, {one: other, other: one})):
            outcome = self._outcome(never, partial(self._one_run, {"op": "run"}, sections))
            assert outcome.startswith("CheckpointMismatch"), f"tables that exchanged names are not refused: {outcome}"
        self._move(moves)
        return f"{one} {other} refused"

    def _move(self, names: Iterable[tuple[str, str]]) -> None:
        with self._process(never):
            warehouse = CatalogSettings.of(f"{ROOT}/warehouse", {})
            for old, new in names:
                warehouse.backend.rename_table(f"{DATABASE}.{old}", f"{DATABASE}.{new}")

    def _replay(self, step: Step) -> str:
        """Replay the dead letters, after the rules have changed."""
        if self._sent or self._parked:  # some tables would get rows by other rules than the model applied
            return "nothing"
        self.sections = {name: value for name, value in self.sections.items() if name != "expect"}
        self.model.sections = self.sections
        if f"{DATABASE}.{LETTERS}" not in {table.name for table in self._found()}:
            return "nothing"

        def run() -> None:
            spec = self._spec({})
            table = finished(spec, next(table for table in self._tables() if table.name.endswith(LETTERS)))
            if letters := letters_of(table.scan().to_arrow()):
                done = replay(spec, letters, table)
                settle(table, letters, done.bad, "story")
                ended(spec, done.writer)

        outcome = self._attempts(step, run)
        self._counts_all = False  # no batch reports what a replay writes
        self.model.replay(self.dimension.at.get(self.dimension.newest, {}))
        return outcome

    def _renew(self, step: Step) -> str:
        """Lose the checkpoint, and continue with a new one from the position of the tables."""
        # A new checkpoint does not know what parked tables have missed, and is refused.
        if (
            self._parks
            or self._begins_otherwise()
            or not self.spark.done
            or not any(table.latest_snapshot for table in self._found())
        ):
            return "nothing"
        self.spark, self._counts_all = self._new_log(), False
        self.sections = merged(self.sections, {"pipeline": {"resume-from-tables": True}})
        return self._run({"op": "run"})

    def _begins_otherwise(self) -> bool:
        """Return whether a new checkpoint, which begins with the last batch, leaves other rows than the old one.

        A table that was dropped since then lacks it, and so does one that got no rows of it, which may get some if the
        dimension was replaced.
        """
        if self._dropped - {table.name for table in self._found()}:
            return True
        snapshot = self.spark.end(self.spark.done - 1).get(LOOKUPS, {}).get(DIMENSION) if self.spark.done else None
        return snapshot is not None and self.dimension.at.get(snapshot) is not self._looked_up

    def _faults(self, step: Step) -> Faults:
        if "fault" not in step:
            return never
        name, nth, kind = step["fault"]
        return fault_at(name, nth, Fault[kind])

    def _apply_sent(self) -> None:
        for change, position in self._sent:
            self._take(change, position)
        self._sent = []
        self.dimension.begin()

    def _take(self, change: Change, position: str) -> None:
        found = self._found_by(position)
        waits = any("retry" in lookup for lookup in self.model.rule(change.get("table", "")).get("lookup", ()))
        # A batch that misses keys waits, and only one of a run gets more of them then.
        self.model.take(change, position, {**self.dimension.rows, **found} if waits else found)

    def _found_by(self, position: str) -> Found:
        """Return the rows of the dimension that the batch of a message looks up in: the newest when it was planned."""
        if not self.dimension.at:
            return {}
        place, _, offset = position.removeprefix("log/").partition("@")
        ends = (self.spark.end(number) for number in range(self.spark.planned))
        end = next(end for end in ends if end["offsets"][place] > int(offset))
        if LOOKUPS not in end:
            return {}
        snapshot = end[LOOKUPS][DIMENSION]
        assert snapshot in self.dimension.during, f"{position} looks up in snapshot {snapshot}"
        self._looked_up = self.dimension.at[snapshot]
        return self._looked_up

    # the pipeline

    @contextmanager
    def _process(self, faults: Faults) -> Iterator[None]:
        self._processes += 1
        with opened(self.disk, f"{self.story.seed} {self._processes}", faults, self.log, joins=self.story.joins):
            yield

    def _driver(self, sections: Mapping[str, Any], between: Callable[[], None], *, is_open: bool = False) -> Driver:
        checkpoint, story = self.spark.folder, self.story

        def on_batch(identity: BatchIdentity, report: BatchReport) -> None:
            self._reports[checkpoint, identity.number] = report

        return Driver(self._spec(sections), self.spark, story.tasks, story.writers, between, is_open, on_batch)

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
        # Not all folders of the database: a process may have died before the schema of its table was complete.
        names = warehouse.backend.tables(DATABASE) if DATABASE in warehouse.databases() else []
        return [Table(warehouse.opened(f"{DATABASE}.{name}")) for name in sorted(names)]

    def _found(self) -> list[Table]:
        with self._process(never):
            return self._tables()

    def _check(self) -> None:
        self.spark.check()
        if self._sent or self._parked:
            return
        assert not self._stops or not self.model.stops, "no rule has stopped the pipeline"
        found = {table.name.partition(".")[2]: table for table in self._found()}
        with self._process(never):
            check_tables(self.model, found)
        if self._counts_all:
            check_counts(self.model, self._reports.values())

    def _check_tables(self, step: Step | None = None) -> None:
        with self._process(never):
            for table in self._tables():
                check_invariants(table)
