"""Every operation of a table on S3 while some requests fail, which the client repeats.

`tests/simulation/test_verbs.py` lets each operation fail on a simulated store. Here the failures are answers of HTTP to
the real client. A normal run has one kind of table, and a share of the operations in each of the two ways.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.object_store import ObjectStorage
from penstock.table.meta.store import TableMissing, TableStore
from tests.servers import s3
from tests.simulation.plays import count_play
from tests.simulation.store import Disk, SimStore
from tests.simulation.verbs import ENDING, KINDS, PATH, VERBS, WAREHOUSE, VerbPlay, is_for

# Their rows are expired by the time of the machine, which is years after that of the simulated store.
TIMED = {"long changelog"}
KINDS_OF_A_RUN = ("lookup",)
EVERY, SHARE = 7, 8
ATTEMPTS = 3


def cases(*, all_of_them: bool) -> list[tuple[str, str, bool]]:
    kinds = [kind for kind in KINDS if kind not in TIMED] if all_of_them else KINDS_OF_A_RUN
    found = [(kind, verb, late) for kind in kinds for verb in VERBS if is_for(kind, verb) for late in (False, True)]
    return [case for place, case in enumerate(found) if all_of_them or (place // 2 + place % 2) % SHARE == 0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "verb" in metafunc.fixturenames:
        found = cases(all_of_them=bool(metafunc.config.getoption("--night")))
        names = [f"{kind}-{verb}-{'answer lost' if late else 'refused'}" for kind, verb, late in found]
        metafunc.parametrize(("kind", "verb", "late"), found, ids=names)


@pytest.fixture(scope="module")
def objects() -> Iterator[s3.Failing]:
    with s3.failing() as running:
        yield running


def bucket(objects: s3.Failing, name: str) -> ObjectStorage:
    """Return an empty bucket, whose creates of files have been tried."""
    s3.create_bucket(objects.url, name)
    options = {"endpoint": objects.url, "access_key_id": s3.ACCESS_KEY, "secret_access_key": s3.SECRET_KEY}
    lake = ObjectStorage("s3", name, tuple({**options, "region": "us-east-1"}.items()))
    assert lake.create(f"{WAREHOUSE}/tried", b"")
    lake.delete(f"{WAREHOUSE}/tried")
    return lake


def performed(verb: str, lake: ObjectStorage) -> list[Exception]:
    """Perform an operation until it succeeds, and return the errors of the attempts before."""
    failures: list[Exception] = []
    for _ in range(ATTEMPTS):
        try:
            VERBS[verb](TableStore.open(lake, PATH))
        except (OSError, ConfigError, TableMissing) as failure:
            failures.append(failure)
            if isinstance(failure, TableMissing) and verb in ENDING and failures[1:]:
                return failures  # an earlier attempt did it
        else:
            return failures
    return failures


def files_of(lake: Storage) -> Disk:
    disk = Disk()
    store = SimStore(disk)
    for entry in lake.walk(WAREHOUSE):
        store.write(f"{WAREHOUSE}/{entry.name}", lake.read(f"{WAREHOUSE}/{entry.name}"))
    return disk


@pytest.mark.slow
def test_an_operation_succeeds_while_requests_fail(objects: s3.Failing, kind: str, verb: str, late: bool) -> None:
    play = VerbPlay(kind, verb)
    lake = bucket(objects, f"{kind}-{verb}-{late}".replace(" ", "-").lower())
    for path, (content, _) in play._copy().files.items():
        lake.write(path, content)
    objects.asked = objects.failed = 0
    objects.every, objects.late = EVERY, late
    try:
        failures = performed(verb, lake)
    finally:
        objects.every = 0
    assert failures == []
    assert objects.failed or objects.asked < EVERY
    found = play._told(files_of(lake))
    assert found == play.expected
    count_play()
