"""The CPU time of a change with hard deletes and with history: inserts of new keys, then updates of random keys.

python -m benchmarks.history [rows]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, record
from tests.here import run
from tests.shop import Shop, change

START = 1_700_000_000_000


def seconds(deletes: str, count: int) -> tuple[float, float]:
    """Return the CPU time of the inserts and of the updates."""
    with tempfile.TemporaryDirectory() as folder:
        shop, dice = Shop(Path(folder)), random.Random(1)
        spec = shop.spec(sink={"deletes": deletes, "table-options": {"bucket": "4"}})
        found = []
        for kind, keys in (("INSERT", range(count)), ("UPDATE", dice.choices(range(count), k=count))):
            rows = ({"id": key, "name": f"name {number}", "q": number} for number, key in enumerate(keys))
            old = [{"q": -1}] if kind == "UPDATE" else None
            shop.put(kind, *(change(kind, "t", row, old=old) for row in rows))
            began = time.process_time()
            run(spec)
            found.append(time.process_time() - began)
        return found[0], found[1]


def main(count: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {"hard": [], "history": []}
    for _ in range(2):
        for deletes, rounds in found.items():
            rounds.append(seconds(deletes, count))
            inserts, updates = (1e6 * seconds / count for seconds in rounds[-1])
            print(f"{deletes:8} {inserts:5.1f} us an insert, {updates:5.1f} us an update")
    for place, work in enumerate(("insert of a new key", "update of a random key")):
        ours, hard = (min(round_[place] for round_ in found[deletes]) * 1e6 / count for deletes in ("history", "hard"))
        record(Figure(f"{work}, `deletes: history`", ours, "us of CPU", hard, "`deletes: hard`", less=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
