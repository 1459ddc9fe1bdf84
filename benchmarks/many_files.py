"""A table of 10,000 files in 100 manifests, made of metadata alone: planning reads nothing else."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

import penstock
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.meta.entries import CommitMessage

COMMITS, FILES = 100, 100


def made(catalog: penstock.Catalog) -> Table:
    columns = [("part", "INT NOT NULL"), ("id", "BIGINT NOT NULL"), *((f"c{n}", "STRING") for n in range(10))]
    options = {"bucket": "1", "write-only": "true", "manifest.merge-min-count": "1000"}
    table = catalog.create_table(
        "bench.files", columns, primary_keys=["part", "id"], partition_keys=["part"], options=options
    )
    rows = pa.table({"part": pa.array([0], pa.int32()), "id": [1], **{f"c{n}": ["value"] for n in range(10)}})
    with table.writer() as writer:
        writer.write(rows)
        [message] = writer.prepare()
    committer = Committer(table.store, "bench")
    for commit in range(COMMITS):
        committer.commit([_copy(message, commit, number) for number in range(FILES)], commit)
    return table


def _copy(message: CommitMessage, commit: int, number: int) -> CommitMessage:
    files = tuple(
        replace(file, name=f"data-{commit}-{number}.parquet", min_sequence=commit, max_sequence=commit)
        for file in message.new_files
    )
    partition = message.partition[:12] + number.to_bytes(4, "little") + message.partition[16:]
    return replace(message, partition=partition, new_files=files, base_snapshot=commit)
