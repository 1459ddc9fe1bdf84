"""One function that checks the invariants of every table after every test.

    check_invariants(table)                          # from the table's own metadata and files
    check_invariants(table, model={3: relation})     # and the rows of snapshots as a model has them
    check_invariants(table, oracle=oracle)           # and as Java Paimon reads them

I1 snapshot ids have no gap, and hints do not point beyond them. I2 every file that a live snapshot, tag or branch names
exists with its size. I3 the rows of a snapshot are the model's. I4 the folded changelog equals the table. I5 a commit
identifier counts once. I7 a key is in one bucket, and dynamic buckets have it in their index. I8 files within a run
above level 0 do not overlap. I9 no two files share a sequence number for a key. I10 counts, keys and statistics in the
metadata match the files. I11 schemas exist. I12 index entries point to live files. I14 Java reads the same rows. (I6,
checkpoints behind tables, and I15, memory, are checked by the tests of whole jobs; I13, nothing reachable is expired,
is I2 after an expiry.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from penstock.table.handle import Table
from tests.golden.relations import Relation, difference, unordered_columns
from tests.interop.oracle.client import Oracle
from tests.invariants import content, metadata, reads
from tests.invariants.view import Reads, View


class Broken(AssertionError):
    """The table violates invariants; the message names each with its number."""


def check_invariants(
    table: Table,
    *,
    model: Mapping[int, Relation] | None = None,
    oracle: Oracle | None = None,
    excused: Collection[str] = (),
    read_by: Reads | None = None,
) -> None:
    """Raise Broken when the table violates an invariant.

    `excused` are the numbers of invariants that another writer of the table does not keep. `read_by` may keep rows from
    one check to the next.
    """
    found = [
        wrong for wrong in broken(table, model or {}, read_by or Reads()) if wrong.partition(" ")[0] not in excused
    ]
    if oracle is not None and not found:
        found += java_differs(table, oracle)
    if found:
        raise Broken("\n".join([f"{table.name} is broken:", *found]))


def broken(table: Table, model: Mapping[int, Relation], read_by: Reads) -> Iterable[str]:
    """Return the violations of the first group of rules that has any: a table without its files cannot be read."""
    view = View.of(table.store, read_by)
    for rules in (metadata.WHOLE, metadata.RULES, content.RULES):
        found = [wrong for rule in rules for wrong in rule(view)]
        if found:
            return found
    return reads.broken(table, model, read_by)


def java_differs(table: Table, oracle: Oracle) -> Iterable[str]:
    for snapshot in table.snapshots:
        java = replace(oracle.read(Path(table.path), snapshot=snapshot.id), unordered=unordered_columns(table.options))
        wrong = difference(java, table.scan(snapshot=snapshot.id).to_arrow())
        if wrong is not None:
            yield f"I14 snapshot {snapshot.id}: {wrong}"
