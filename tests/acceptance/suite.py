"""The folder of the suite: its cases with the rows that they must give, and the comparison with answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.golden.cases import Case, case_names
from tests.golden.relations import Relation, difference

KIND_COLUMN = "rowkind"


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a table: its name, the Paimon options of the read, and the rows that it must return."""

    case: str
    name: str
    options: Mapping[str, str]
    rows: Relation

    @property
    def has_kinds(self) -> bool:
        return self.rows.kinds is not None

    def node(self) -> dict[str, Any]:
        """Return the read as it is written to `reads.json`."""
        return {
            "name": self.name,
            "options": dict(self.options),
            "columns": [
                {"name": name, "type": kind} for name, kind in zip(self.rows.columns, self.rows.types, strict=True)
            ],
            "rows": [list(row) for row in self.rows.rows],
            "kinds": self.rows.kinds,
            "unordered_arrays": sorted(self.rows.unordered),
        }

    @classmethod
    def of(cls, case: str, node: Mapping[str, Any]) -> Read:
        columns = node["columns"]
        relation = Relation(
            tuple(column["name"] for column in columns),
            tuple(column["type"] for column in columns),
            node["rows"],
            node["kinds"],
            unordered=frozenset(node["unordered_arrays"]),
        )
        return cls(case, node["name"], node["options"], relation)


def reads_of(case: Case) -> Iterator[Read]:
    """Yield the reads of a golden table, without those that Java Paimon itself refuses.

    Reads in the mode `diff` are left out: Java's also return rows that did not change, of files that were rewritten.
    """
    found = [("latest", {}, case.latest)]
    found += [
        (f"snapshot-{number}", {"scan.snapshot-id": str(number)}, rows) for number, rows in case.snapshots.items()
    ]
    found += [(f"tag-{name}", {"scan.tag-name": name}, rows) for name, rows in case.tags.items()]
    found += [(f"branch-{name}", {"branch": name}, rows) for name, rows in case.branches.items()]
    for incremental in (incremental for incremental in case.incrementals if incremental.mode != "diff"):
        ends = {
            "incremental-between": f"{incremental.start},{incremental.end}",
            "incremental-between-scan-mode": incremental.mode,
        }
        found.append((f"changes-{incremental.start}-{incremental.end}-{incremental.mode}", ends, incremental.rows))
    for name, options, rows in found:
        if rows.refusal is None:
            yield Read(case.name, name, options, rows)


def unpack(folder: Path) -> int:
    """Write every case to a folder of its own, and return the number of reads."""
    count = 0
    for name in case_names():
        case, home = Case(name), folder / name
        shutil.copytree(case.table, home / "table")
        reads = [read.node() for read in reads_of(case)]
        count += len(reads)
        about = {"about": case.expected["about"], "writer": case.expected["writer"], "reads": reads}
        (home / "reads.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    return count


def reads_in(folder: Path) -> Iterator[Read]:
    """Yield the reads of an unpacked suite."""
    for path in sorted(folder.glob("*/reads.json")):
        for node in json.loads(path.read_text(encoding="utf-8"))["reads"]:
            yield Read.of(path.parent.name, node)


def answer_of(folder: Path, read: Read) -> Path:
    return folder / read.case / "answers" / f"{read.name}.arrow"


def answer(folder: Path, read: Read, rows: pa.Table) -> None:
    """Write the rows that an implementation returns for a read."""
    path = answer_of(folder, read)
    path.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


def verdicts(folder: Path) -> Iterator[tuple[Read, str]]:
    """Yield each read with `right`, `missing`, or the difference to the rows that it must return."""
    for read in reads_in(folder):
        path = answer_of(folder, read)
        if not path.exists():
            yield read, "missing"
            continue
        with pa.OSFile(str(path)) as file:
            rows = pa.ipc.open_file(file).read_all()
        kinds = KIND_COLUMN if read.has_kinds and KIND_COLUMN in rows.column_names else None
        if read.has_kinds and kinds is None:
            yield read, f"the answer has no column {KIND_COLUMN}"
            continue
        wrong = difference(read.rows, rows, kind_column=kinds)
        yield read, "right" if wrong is None else wrong.replace("Java", "the suite")
