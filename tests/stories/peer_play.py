"""Plays a story on a real table with several implementations in turn: each step is drawn for one that can do it.

After each step the readers of all peers are compared with the model. A difference that is known is in `VERDICTS` with
its reason; any other one fails.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from tests.golden.relations import difference
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.interop.peer_process import PeerRefused
from tests.interop.pypaimon.client import Pypaimon
from tests.interop.pypaimon_rust.client import PypaimonRust
from tests.invariants import check_invariants
from tests.simulation.story import Step, Story
from tests.simulation.tellers import create_ours
from tests.stories.older_penstock import OlderPenstock
from tests.stories.peers import BY_JAVA, JavaPeer, OlderPeer, OurPeer, Peer, PypaimonPeer, RustPeer
from tests.stories.shelf import TableModel
from tests.stories.steps import apply, fitted, same_columns, shown, widened


def flat(step: Step) -> list[Step]:
    """Return the steps that happen at once, one after the other."""
    if step["op"] != "meanwhile":
        return [step]
    other = [] if step.get("twins") else [step["other"]]
    return [step_ for step_ in (step["step"], *other) if step_ is not None]


def any_story(_story: Story) -> bool:
    return True


def aggregates_retractions(story: Story) -> bool:
    steps = [part for step in story.steps for part in flat(step)]
    kinds = {row[0] for step in steps for row in step.get("rows", ())}
    return story.options.get("merge-engine") == "aggregation" and bool(kinds & {"-U", "-D"})


@dataclass(frozen=True)
class Verdict:
    """A known disagreement, by a part of its text: whose it is, and who is right. It holds for stories that `fit`."""

    peer: str
    text: str
    reason: str
    fits: Callable[[Story], bool] = any_story


VERDICTS = (
    Verdict(
        "java",
        "org.apache.paimon.mergetree.LookupLevels.createLookupFile",
        "Java names a local file of its lookups after the partition, whose value may contain a slash",
    ),
    Verdict("pypaimon", "that pypaimon does not yet implement", "pypaimon refuses the table by name, and is right to"),
    Verdict(
        "pypaimon-rust", "Paimon hitting unsupported error", "pypaimon-rust refuses the table by name, and is right to"
    ),
    Verdict(
        "pypaimon-rust",
        "are not the model's",
        "pypaimon-rust reads retractions of aggregates as rows to add",
        aggregates_retractions,
    ),
    # The number is the mark of a vector of 64 bits.
    Verdict(
        "pypaimon",
        "Invalid magic number: 3520280932, expected: 1581511376",
        "pypaimon refuses deletion vectors of 64 bits (deletion-vectors.bitmap64), which Java reads",
    ),
)


@dataclass
class PeerPlay:
    """One performance. `done` has each step with the peer that performed it, `judged` counts known disagreements."""

    story: Story
    peers: Sequence[Peer]
    ours: OurPeer
    done: list[str] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.model = TableModel(self.story)
        self._models: dict[int, TableModel] = {}
        self._tagged: dict[str, TableModel] = {}
        self._draw = random.Random(f"{self.story.seed} peers")

    def run(self) -> PeerPlay:
        create_ours(self.story, LocalStorage(sync=False), str(self.ours.path))
        steps = [part for step in self.story.steps for part in flat(step)]
        for number, step in enumerate(steps, 1):
            resolved = self._resolved(step)
            if resolved is None:
                continue
            self._perform(resolved, number)
            self.check()
        return self

    def _resolved(self, step: Step) -> Step | None:
        """Return the step with names and numbers that the table has now, or None if the step is impossible."""
        if "branch" in step:
            return None
        latest = Table(self.ours.open()).latest_snapshot
        match step["op"]:
            case "write" if "overwrite" in step and not self._replaces_partitions(step):
                return None
            case "write":
                # For the peers, no partition means the partitions of the rows.
                step = {**step, "overwrite": step["overwrite"] or {}} if "overwrite" in step else step
                return fitted(step, self.model)
            case "tag":
                return step if latest is not None else None
            case "delete_tag":
                names = sorted(self._tagged)
                return {"op": "delete_tag", "name": names[step["which"] % len(names)]} if names else None
            case "rollback":
                return self._rollback(step)
            case "alter":
                names = self.model.names
                fits = all((change["name"] in names) == (change["kind"] != "add") for change in step["changes"])
                return step if fits else None
        return step if step["op"] in BY_JAVA and latest is not None else None

    def _replaces_partitions(self, step: Step) -> bool:
        """Return whether all peers do the same: they replace the partitions of the rows, and move no keys."""
        partitions, keys = self.story.partition_keys, self.story.primary_keys
        return not (partitions and (step["overwrite"] == {} or (keys and not set(partitions) <= set(keys))))

    def _rollback(self, step: Step) -> Step | None:
        there = [item.id for item in Table(self.ours.open()).snapshots]
        targets = [number for number in there if same_columns(self._models[number], self.model)]
        return {"op": "rollback", "snapshot": targets[step["which"] % len(targets)]} if targets else None

    def _perform(self, step: Step, number: int) -> None:
        able = [peer for peer in self.peers if peer.can(step, self.story)]
        self._draw.shuffle(able)
        told = {key: value for key, value in step.items() if key not in {"columns", "which"}}
        for peer in able:
            try:
                peer.perform(told, number)
            except (PeerRefused, JavaRefused) as refusal:
                self._judge(peer.name, f"refused {told}: {refusal.message}\n{refusal.trace}")
                continue
            self.done.append(f"{peer.name} {told}")
            break
        else:
            return
        self._learn(step)

    def _learn(self, step: Step) -> None:
        table = Table(self.ours.open())
        if step["op"] == "rollback":
            number = step["snapshot"]
            self.model = widened(self._models[number], self.model)
            self._models = {snapshot: model for snapshot, model in self._models.items() if snapshot <= number}
            kept = table.tags
            self._tagged = {name: model for name, model in self._tagged.items() if name in kept}
        elif step["op"] == "tag":
            self._tagged[step["name"]] = self.model.copy()
        elif step["op"] == "delete_tag":
            del self._tagged[step["name"]]
        elif step.get("overwrite") == {}:
            apply({**step, "overwrite": None}, self.model)
        else:
            apply(step, self.model)
        for snapshot in table.snapshots:
            self._models.setdefault(snapshot.id, self.model.copy())

    def check(self) -> None:
        table = Table(self.ours.open())
        latest = table.latest_snapshot
        if latest is not None and not shown(table, latest):
            return
        check_invariants(table)
        wanted = self.model.relation()
        for peer in self.peers:
            try:
                wrong = difference(wanted, peer.read())
            except (PeerRefused, JavaRefused) as refusal:
                wrong = f"refused to read: {refusal.message}"
            if wrong is not None:
                self._judge(peer.name, wrong.replace("Java", "the model"))

    def _judge(self, peer: str, wrong: str) -> None:
        """Count a known disagreement. Any other one fails the story."""
        known = (
            verdict
            for verdict in VERDICTS
            if verdict.peer == peer and verdict.text in wrong and verdict.fits(self.story)
        )
        verdict = next(known, None)
        story = "\n".join(self.done)
        assert verdict is not None, f"seed {self.story.seed}: {peer} disagrees after\n{story}\n{wrong}"
        self.judged[f"{peer}: {verdict.reason}"] += 1


@dataclass(frozen=True)
class OtherPeers:
    """The processes of the peers. `older` is None where its commit is not to be had."""

    oracle: Oracle
    pypaimon: Pypaimon
    rust: PypaimonRust
    older: OlderPenstock | None


def play(story: Story, folder: Path, others: OtherPeers) -> PeerPlay:
    # Java refuses a write buffer below three pages of its memory, and a compaction of such a table.
    options = {key: value for key, value in story.options.items() if key != "write-buffer-size"}
    story, path = replace(story, options=options), folder / "db.db" / f"t{story.seed}"
    ours = OurPeer(path)
    performance = PeerPlay(story, [], ours)

    def columns() -> list[tuple[str, Any]]:
        return list(performance.model.columns)

    peers: list[Peer] = [
        ours,
        JavaPeer(path, others.oracle),
        PypaimonPeer(path, others.pypaimon, columns),
        RustPeer(path, others.rust, columns),
    ]
    if others.older is not None:
        peers.append(OlderPeer(path, others.older))
    performance.peers = peers
    return performance.run()
