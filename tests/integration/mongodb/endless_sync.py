"""A pipeline of one collection in a process of its own, run again and again until somebody kills it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.mongodb.sync import MongoPlayground, MongoSync

CHUNK = "scan.incremental.snapshot.chunk.size=100"
FLAGS = ("--max-batch-rows", "300")


def main(uri: str, folder: str) -> None:
    with MongoPlayground.at(uri) as server:
        sync = MongoSync(server, Path(folder), "w", [CHUNK], FLAGS)
        while True:
            sync.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
