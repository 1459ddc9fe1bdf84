"""Plays a random story on a simulated store beside the model, and checks the table after every step."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.errors import CommitConflict, ConfigError, TableCorrupt
from penstock.table.handle import Table
from penstock.table.maintenance.tags import tag_files
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.entry_cache import EntryCache
from penstock.table.meta.snapshot import CommitKind, Snapshot, parse_snapshot
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.operations.executor import OwnProcess
from tests.golden.relations import Relation, difference
from tests.invariants import check_invariants
from tests.orphans import remove_orphans
from tests.simulation.playing import PATH
from tests.simulation.store import MUTATIONS, Disk, Faults, Operation, SimStore, never
from tests.simulation.story import Step, Story
from tests.simulation.tellers import create_ours
from tests.stories.actor import Actor, ambient
from tests.stories.fallback_reads import check_fallback, is_like
from tests.stories.looker import Looker, open_table
from tests.stories.older_reads import OlderReads
from tests.stories.remembered_reads import RememberedReads
from tests.stories.shelf import Line, TableModel
from tests.stories.step_checks import StepChecks, is_thorough
from tests.stories.steps import apply, bare, fitted, has_buckets, is_altered, same_columns, shown, widened
from tests.stories.subscriber import Subscriber
from tests.stories.timed import TAGS, Lasting, check_expired, learn_automatic_tags

DAY = 86_400_000
WEEK = 7 * DAY


class Chronicle(Disk):
    """A disk that records every snapshot file that was created, including those deleted soon after."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[tuple[str, Snapshot]] = []

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        folder, _, name = path.rpartition("/")
        if name.startswith("snapshot-") and name.removeprefix("snapshot-").isdigit():
            with suppress(TableCorrupt):  # a write that is cut off
                self.snapshots.append((folder, parse_snapshot(data, path)))

    def created(self, folder: str) -> list[Snapshot]:
        """Return the snapshots of a branch since the last step."""
        return [snapshot for place, snapshot in self.snapshots if place == folder]


class Performance:
    """A performance of a story. `trace` records what happened, byte for byte the same for the same story and faults."""

    def __init__(self, story: Story, faults: Faults = never, *, thorough: bool | None = None) -> None:
        """Begin with an empty table. `thorough` performances check all invariants after each step."""
        self.story, self.disk, self.faults = story, Chronicle(), faults
        self.log: list[Operation] = []
        self.lines: dict[str | None, Line] = {None: Line(TableModel(story))}
        self.steps_done: list[str] = []
        self._last_write: tuple[Step, int] | None = None
        self._replay_is_known_until = 0  # expiry keeps the last snapshot of a commit user for a week
        self._actors = 0
        self._resident: Actor | None = None
        self._looker: Looker | None = None
        self._subscriber = Subscriber()
        # Manifests have unique names and never change. Actors do not share this cache: each opens the table itself.
        self._read_by_checks = EntryCache[ManifestEntry]()
        self._lasting = Lasting(story.options, self.disk.clock)
        self._reads = RememberedReads(self.disk, self._lasting)
        thorough = is_thorough(story.seed) if thorough is None else thorough
        self._step_checks = StepChecks(self.disk, thorough, self._lasting)
        self._shown: dict[Hashable, tuple[list[object], bool]] = {}
        create_ours(story, SimStore(self.disk), PATH, ambient(self.disk, f"{story.seed} creator"))

    def run(self) -> Performance:
        # Key indexes and lookup files are stored on local disk: no story must find those of another.
        former = tempfile.tempdir
        with tempfile.TemporaryDirectory(prefix="penstock-story-") as folder:
            tempfile.tempdir = folder
            try:
                self._run()
            finally:
                tempfile.tempdir = former
        return self

    def _run(self) -> None:
        for number, step in enumerate(self.story.steps, 1):
            resolved = self._resolved(step)
            if resolved is None:
                continue
            self.steps_done.append(str(resolved))
            self.disk.snapshots.clear()
            try:
                self._play(resolved, number)
                self._learn_automatic_tags()
                self._check_newest()
                self._step_checks.check(self.lines)
            except Exception as error:
                raise StoryFailed(self.story, number, resolved, error) from error
        try:
            self._check_all()
            Actor("end", self.disk, f"{self.story.seed} end", never, self.log).perform(
                {"op": "expire", "retain": 1}, 0, lambda _: False
            )
            remove_orphans(self._sound(None), older_than=self.disk.clock() + 10 * DAY, executor=OwnProcess())
            self._check_all()
        except Exception as error:
            raise StoryFailed(self.story, len(self.story.steps) + 1, {"op": "end"}, error) from error

    @property
    def trace(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self.disk.files):
            digest.update(path.encode() + self.disk.files[path][0])
        return "\n".join([*self.steps_done, *map(str, self.log), digest.hexdigest()])

    # steps

    def _resolved(self, step: Step) -> Step | None:
        """Return the step with names and numbers that the table has now, or None if the step is impossible."""
        line = self.lines.get(step.get("branch"))
        if line is None:
            return None
        match step["op"]:
            case "write":
                return fitted(step, line.now)
            case "compact" if self.story.options.get("row-tracking.enabled") == "true":
                return None  # refused: rows would lose their ids
            case "again":
                return step if self._last_write else None
            case "meanwhile":
                return {**step, "step": self._resolved(step["step"]), "other": self._resolved(step["other"])}
            case "delete" | "rescale" | "sql" if self._lacks_waiting_rows(step) and not self._is_shown(None):
                return {"op": "compact", "full": True}
            case "consume":
                return step if self._sound(None).snapshots.latest_id() else None
            case "fallback":
                return self._fallback_branch(step)
            case "tag":
                return step if self._sound(step.get("branch")).snapshots.latest_id() else None
            case "delete_tag" | "branch":
                names = sorted(self.lines[None].tags)
                if step["op"] == "branch":
                    names = [name for name in names if self._has_buckets_of_own_schema(name)]
                return {**step, "tag": names[step["which"] % len(names)]} if names else None
            case "rollback":
                return self._rollback_target(step)
            case "fast_forward":
                names = sorted(name for name in self.lines if name)
                return {"op": "fast_forward", "name": names[step["which"] % len(names)]} if names else None
            case "alter":
                return step if self._can_alter(step) else None
            case "rescale":
                return step if self._sound(None).snapshots.latest_id() else None
        return step

    def _lacks_waiting_rows(self, step: Step) -> bool:
        """Return whether the step does not compact rows that wait for a compaction: statements compact them first."""
        return step["op"] in {"delete", "rescale"} or (step["op"] == "sql" and self.story.options.get("bucket") == "-2")

    def _fallback_branch(self, step: Step) -> Step | None:
        main = self.lines[None]
        names = sorted(
            name for name, line in self.lines.items() if name and is_like(main, line) and self._is_shown(name)
        )
        return {**step, "branch": names[step["which"] % len(names)]} if names and self._is_shown(None) else None

    def _rollback_target(self, step: Step) -> Step | None:
        line, found = self.lines[None], Table(self._sound(None))
        # Snapshots before it are left by an expiry that was interrupted, and refused as targets.
        first = found.store.snapshots.earliest_id() or 0
        kept = [snapshot.id for snapshot in found.snapshots if snapshot.id >= first]
        models: dict[Any, TableModel] = (
            line.tagged
            if step["to"] == "tag"
            else {number: line.models[number] for number in kept if number in line.models}
        )
        fitting = [target for target, model in models.items() if same_columns(model, line.now)]
        fitting = [target for target in fitting if self._has_buckets_of_schema(found, step["to"], target)]
        return {"op": "rollback", "target": fitting[step["which"] % len(fitting)]} if fitting else None

    def _has_buckets_of_schema(self, table: Table, kind: str, target: Any) -> bool:
        """Return whether rows can be written after a rollback: it changes no options, so also no number of buckets."""
        store = table.store
        snapshot = tag_files(store).get(target).snapshot if kind == "tag" else store.snapshots.get(target)
        return has_buckets(store, snapshot, store.schema().options)

    def _has_buckets_of_own_schema(self, tag: str) -> bool:
        """Return whether rows can be written to a branch of a tag, which has the schema of the tagged snapshot.

        A rescale commits under the schema with the old number of buckets, and the option is altered after it.
        """
        store = self._sound(None)
        snapshot = tag_files(store).get(tag).snapshot
        return has_buckets(store, snapshot, store.schemas.get(snapshot.schema_id).options)

    def _can_alter(self, step: Step) -> bool:
        names = self.lines[step.get("branch")].now.names
        return all((change["name"] in names) == (change["kind"] != "add") for change in step["changes"])

    def _play(self, step: Step, number: int) -> None:
        match step["op"]:
            case "days":
                self.disk.clock.pass_(step["days"] * DAY)
            case "again":
                self._play_again()
            case "meanwhile":
                self._play_meanwhile(step, number)
            case "fast_forward":
                first = self._sound(step["name"]).snapshots.earliest_id()
                assert first is not None
                shared = self._shared_tags(step["name"])
                try:
                    self._actor("main", number).perform(step, number, self._is_done)
                except ConfigError as refused:
                    if not re.search("first snapshots (of the branch )?have expired", str(refused)):
                        raise
                    return
                self._replay_is_known_until = 0
                self._subscriber.fast_forwarded(Table(self._sound(None)))
                self.lines[None].fast_forwarded(self.lines[step["name"]], first, shared)
            case "look":
                self._look(step)
            case "recreate":
                self._recreate()
            case "consume":
                store = SimStore(self.disk, never, len(self.log), self.log)
                opened = open_table(store, ambient(self.disk, f"{self.story.seed} subscriber {number}"))
                self._subscriber.read(Table(opened), self.lines[None], step)
            case "fallback":
                table, branch = Table(self._sound(None)), step["branch"]
                wrong = check_fallback(table, branch, self.lines[None], self.lines[branch], self._reads)
                assert wrong is None, wrong.replace("Java", "the model")
            case "expire_partitions":
                now, actor = self.disk.clock(), self._actor("main", number)
                actor.perform(step, number, self._is_done)
                self._learn(None, [(actor, step)])
                check_expired(Table(self._sound(None)), self._lasting, now)
            case "travel" | "between":
                wrong = self._older_reads().check(step)
                assert wrong is None, wrong.replace("Java", "the model")
            case _:
                actor = self._resident_actor() if step.get("resident") else self._actor("main", number)
                actor.perform(bare(step), number, self._is_done)
                assert not isinstance(actor.refused, CommitConflict), f"refused, although alone: {actor.refused}"
                self._learn(step.get("branch") if step["op"] != "branch" else None, [(actor, step)])
                self._learn_names(step)
                if step["op"] == "write" and "branch" not in step:
                    self._last_write = (step, number)
                    self._replay_is_known_until = self.disk.clock() + WEEK if actor.refused is None else 0

    def _look(self, step: Step) -> None:
        if self._looker is None:
            environment = ambient(self.disk, f"{self.story.seed} looker")
            self._looker = Looker(
                lambda: SimStore(self.disk, self.faults, len(self.log), self.log),
                lambda store: open_table(store, environment),
            )
        wrong = self._looker.look(step["by"], self.lines[None].now)
        assert wrong is None or not self._is_shown(None), f"lookup by {step['by']}: {wrong}"

    def _older_reads(self) -> OlderReads:
        return OlderReads(Table(self._sound(None)), self.lines[None], self._reads)

    def _recreate(self) -> None:
        """Drop the table and create it again, while other processes keep the old one open."""
        self.disk.settle()
        store = SimStore(self.disk)
        store.delete_tree(PATH)
        self._actors += 1
        create_ours(self.story, store, PATH, ambient(self.disk, f"{self.story.seed} creator {self._actors}"))
        self.lines = {None: Line(TableModel(self.story))}
        self._last_write, self._replay_is_known_until = None, 0
        self._subscriber = Subscriber()
        self._step_checks.forget()
        self._read_by_checks = EntryCache[ManifestEntry]()

    def _resident_actor(self) -> Actor:
        if self._resident is None:
            seed = f"{self.story.seed} resident"
            self._resident = Actor("main", self.disk, seed, self.faults, self.log, stays=True)
        return self._resident

    def _shared_tags(self, branch: str) -> list[str]:
        """Return the tags of main that keep a snapshot which the branch has, too."""
        theirs = self._sound(branch)
        known = {theirs.snapshots.get(number).base_manifest_list for number in theirs.snapshots.ids()}
        known |= {tag.snapshot.base_manifest_list for tag in tag_files(theirs).all()}
        return [tag.name for tag in tag_files(self._sound(None)).all() if tag.snapshot.base_manifest_list in known]

    def _play_again(self) -> None:
        """Repeat the last commit. It must not commit again as long as its first snapshot exists."""
        assert self._last_write is not None
        step, number = self._last_write
        found = Table(self._sound(None)).snapshots
        committed = any(item.commit_user == "main" and item.commit_identifier == number for item in found)
        committed = committed or self.disk.clock() < self._replay_is_known_until
        now = self.lines[None].now
        again = fitted(step, now)
        actor = self._actor("main", number)
        actor.perform(bare(again), number, self._is_done)
        made = self.disk.created(self._sound(None).paths.snapshot_folder)
        kinds = {item.commit_kind for item in made if item.commit_user == actor.name}
        assert not committed or kinds <= {CommitKind.COMPACT}, f"commit {number} was replayed, and committed again"
        self._learn(None, [(actor, again)])

    def _play_meanwhile(self, step: Step, number: int) -> None:
        """Perform two steps at once.

        The other process acts when the first is about to list or change something for the n-th time.
        """
        first, other = step["step"], step["other"]
        if first is not None and first["op"] == "orphans":
            first = {**first, "millis": DAY}  # also files that the other process writes meanwhile are old enough
        before = self.lines[None].now.relation() if self._is_shown(None) else None
        count, actors = 0, []

        def act() -> None:
            actor = self._actor("main" if step.get("twins") else "other", number)
            acted = other
            if self._lacks_waiting_rows(other) and not self._is_shown(None):
                # The first step has committed rows that wait for a compaction: the statement would not see them.
                acted = {"op": "compact", "full": True}
            actor.perform(bare(acted), number, self._is_done)
            actors.append((actor, acted))

        def turn(operation: Operation) -> None:
            nonlocal count
            count += operation.name in MUTATIONS | {"list"}
            if count == step["at"] and len(actors) < 2 and other is not None:
                count += 1
                act()

        if first is not None:
            actor = self._actor("main", number, turn)
            actors.append((actor, first))
            actor.perform(bare(first), number, self._is_done)
        if len(actors) < 2 and other is not None:
            act()
        if step.get("twins"):  # one of them commits, and the other finds that out or is refused
            users = set[str]().union(*(actor.users for actor, _ in actors))  # with those of maintenance
            actors = [next((pair for pair in actors if pair[0].refused is None), actors[0])]
            actors[0][0].users |= users
            assert actors[0][0].refused is None, f"both drivers were refused: {actors[0][0].refused}"
        self._learn(None, actors)
        for actor, _ in actors:
            if actor.read is not None and before is not None:
                self._check_read(actor.read, before)

    def _check_read(self, rows: pa.Table, before: Relation) -> None:
        """Check that rows read while another process acted are those of one snapshot."""
        made = [item.id for item in self.disk.created(self._sound(None).paths.snapshot_folder)]
        known = self.lines[None].visible
        if all(number in known for number in made):
            self._lasting.begin()
            right = map(self._lasting.relation, (before, *(known[number] for number in made)))
            wrong = [difference(relation, self._lasting.table(rows)) for relation in right]
            assert None in wrong, f"rows read meanwhile are those of no snapshot: {wrong[0]}"

    def _actor(self, name: str, number: int, turn: Any = lambda _: None) -> Actor:
        self._actors += 1  # every process draws different names
        seed = f"{self.story.seed} {name} {number} {self._actors}"
        return Actor(name, self.disk, seed, self.faults, self.log, turn)

    def _is_done(self, step: Step) -> bool:
        """Return whether a step that cannot be repeated took effect although it failed."""
        table = Table(self._sound(step.get("branch")))
        match step["op"]:
            case "tag":
                return step["name"] in table.tags
            case "delete_tag":
                return step["name"] not in table.tags
            case "branch":
                return step["name"] in table.branches and self._is_whole(step["name"])
            case "alter":
                return all(is_altered(change, table.definition.names) for change in step["changes"])
        return False

    def _is_whole(self, branch: str) -> bool:
        """Return whether the branch was created completely: the schema of its snapshot is written last."""
        try:
            made = self._sound(branch)
        except TableMissing:
            return False
        newest = made.snapshots.latest()
        return newest is not None and newest.schema_id in made.schemas.ids()

    # updates of the model

    def _learn(self, branch: str | None, actors: Sequence[tuple[Actor, Step]]) -> None:
        """Apply the steps to the model in the order in which their snapshots were created."""
        line, table = self.lines[branch], Table(self._sound(branch))
        applied: set[int] = set()
        # A rollback to a tag creates the tag's snapshot again if it has expired, whoever committed it.
        targets = [step["target"] for _, step in actors if step["op"] == "rollback"]
        restored = {line.tags[target] if isinstance(target, str) else target for target in targets}
        for snapshot in self.disk.created(table.store.paths.snapshot_folder):
            if snapshot.id in restored:
                continue
            if snapshot.commit_kind is not CommitKind.COMPACT:
                mine = [place for place, (actor, _) in enumerate(actors) if snapshot.commit_user in actor.users]
                assert mine, f"nobody wrote {snapshot}"
                for place in mine:
                    actor, step = actors[place]
                    assert actor.refused is None, f"{step} was refused, and committed all the same: {actor.refused}"
                    if place not in applied:
                        apply(step, line.now)
                        applied.add(place)
            self._remember(line, table, snapshot)
        for actor, step in actors:
            if step["op"] == "alter" and actor.refused is None:
                apply(step, line.now)

    def _remember(self, line: Line, table: Table, snapshot: Snapshot) -> None:
        line.models[snapshot.id] = line.now.copy()
        line.visible.pop(snapshot.id, None)
        if table.store.snapshots.exists(snapshot.id) and self._shows(table, snapshot):
            line.visible[snapshot.id] = line.now.relation()

    def _learn_automatic_tags(self) -> None:
        if TAGS in self.story.options:
            for branch, line in self.lines.items():
                learn_automatic_tags(Table(self._sound(branch)), line)

    def _learn_names(self, step: Step) -> None:
        line = self.lines[None]
        match step["op"]:
            case "tag":
                branch = self.lines[step.get("branch")]
                branch.tag(step["name"], Table(self._sound(step.get("branch"))).tags[step["name"]])
            case "delete_tag":
                line.forget_tag(step["tag"])
            case "branch":
                self.lines[step["name"]] = line.branched(step["tag"])
            case "rollback":
                self._replay_is_known_until = 0
                target = step["target"]
                number = line.tags[target] if isinstance(target, str) else target
                model = line.tagged[target] if isinstance(target, str) else line.models[target]
                rows = line.tagged_rows.get(target) if isinstance(target, str) else line.visible.get(target)
                line.cut_after(number)
                self._subscriber.rolled_back(number)
                line.models[number] = model
                if rows is not None:
                    line.visible[number] = rows
                line.now = widened(model, line.now)

    # checks

    def _sound(self, branch: str | None) -> TableStore:
        """Open the table without faults, for checks."""
        store = TableStore.open(SimStore(self.disk), PATH, branch, ambient(self.disk, "checker"))
        return replace(store, cache=self._read_by_checks)

    def _is_shown(self, branch: str | None) -> bool:
        table = Table(self._sound(branch))
        return table.latest_snapshot is None or self._shows(table, table.latest_snapshot)

    def _shows(self, table: Table, snapshot: Snapshot) -> bool:
        """Return what `shown` returns, from an earlier answer if the lists of the snapshot are the same files."""
        names = snapshot.base_manifest_list, snapshot.delta_manifest_list
        lists: list[object] = [self.disk.files.get(table.store.paths.manifest(name)) for name in names]
        known = self._shown.get((names, table.definition))
        if known is None or any(now is not then for now, then in zip(lists, known[0], strict=True)):
            known = self._shown[names, table.definition] = lists, shown(table, snapshot)
        return known[1]

    def _check_newest(self) -> None:
        self._lasting.begin()
        for branch, line in self.lines.items():
            table = Table(self._sound(branch))
            if table.latest_snapshot is None or self._shows(table, table.latest_snapshot):
                wrong = difference(self._lasting.relation(line.now.relation()), self._reads.of_scan(table.scan()))
                assert wrong is None, f"newest rows of {branch or 'main'}: {wrong}".replace("Java", "the model")

    def _check_all(self) -> None:
        self._lasting.begin()
        for branch, line in self.lines.items():
            table = Table(self._sound(branch))
            check_invariants(table, model=self._lasting.relations(line.visible), read_by=self._reads)
            assert set(table.tags) == set(line.tags), f"tags {table.tags}, should be {line.tags}"
            for name, rows in line.tagged_rows.items():
                wrong = difference(self._lasting.relation(rows), self._reads.of_scan(table.scan(tag=name)))
                assert wrong is None, f"tag {name} of {branch or 'main'}: {wrong}".replace("Java", "the model")


class StoryFailed(AssertionError):
    """The failure of a story.

    `cause` is the kind of failure; a shorter story with the same cause fails in the same way.
    """

    def __init__(self, story: Story, number: int, step: Mapping[str, Any], error: Exception) -> None:
        text = str(error).splitlines()
        super().__init__(f"seed {story.seed}, step {number} {step}: {type(error).__name__}: " + "\n".join(text[:8]))
        self.number, self.error = number, error

    @property
    def cause(self) -> str:
        kind = type(self.error).__name__
        if not isinstance(self.error, AssertionError):
            # A shorter story that the table refuses for another reason has another cause.
            return f"{kind} {re.sub(r'[0-9]+', '', str(self.error).splitlines()[0])}" if str(self.error) else kind
        words = str(self.error).split()
        return " ".join([kind, *(word for word in words if word.startswith("I") and word[1:2].isdigit())][:2])
