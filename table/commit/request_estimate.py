"""An estimate of the requests to an object store that a batch makes for each table that it changes.

A test counts the requests of real commits and compares them with these figures, so they change together.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.table.merge.engines.registry import merge_engine
from penstock.table.options.buckets import BUCKET
from penstock.table.options.changelogs import CHANGELOG_PRODUCER, DELETION_VECTORS_ENABLED
from penstock.table.options.table_options import TableOptions

_BY_COMPACTION = {"lookup", "full-compaction"}


@dataclass(frozen=True, slots=True)
class Requests:
    """Counts of requests by price class: stores charge listings like writes, and other reads less.

    Deletions are free of charge.
    """

    puts: int = 0
    lists: int = 0
    reads: int = 0


def requests_of_batch(options: TableOptions, buckets: int, *, keyed: bool) -> Requests:
    """Return the requests of write tasks and commit for a batch with rows in this many buckets of one partition.

    `keyed`: the table has a primary key.

    The files of the table are small, caches are filled, and nothing but the changelog asks for a compaction. Producers
    of changelogs by compaction, and deletion vectors, count as if they compacted in every batch.
    """
    producer = options[CHANGELOG_PRODUCER]
    compacts = producer in _BY_COMPACTION or options[DELETION_VECTORS_ENABLED] or merge_engine(options).oldest_wins
    if keyed and compacts:
        # Two snapshots with one hint. A bucket has a file of new rows, the compacted file and the changelog; the
        # compaction reads the files of before.
        return Requests(puts=11 + 3 * buckets, lists=1, reads=16 + 4 * buckets)
    # Dynamic buckets: the snapshot that all tasks look keys up in, and the hash index of each bucket. New keys add what
    # their index costs: it is read again, and written with an index manifest.
    reads = 13 + buckets if keyed and options[BUCKET] == -1 else 11
    # Writing: manifest, base list, delta list, snapshot and the hint LATEST; with `input` a manifest and a list of the
    # changelog, too. A listing finds the newest schema for the commit.
    if keyed and producer == "input":
        return Requests(puts=7 + 2 * buckets, lists=1, reads=reads)
    return Requests(puts=5 + buckets, lists=1, reads=reads)
