"""Storage with faults, drawn from a seed.

    disk = Disk()                                   # what is durable; outlives the processes
    store = SimStore(disk, faults=at(17, Fault.AFTER))
    ...                                             # the 17th operation takes effect and reports failure
    store = SimStore(disk)                          # the process is dead; the next one finds what the first one left

Every operation is numbered and logged. The same seed and the same calls produce the same faults, listings and times.
"""

from __future__ import annotations

import contextlib
import enum
import random
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from penstock.storage.base import Entry

T = TypeVar("T")
START = 1_700_000_000_000
SLOW_MILLIS = 60_000
STALE_BY = 4
LATE_BY = 12
HINTS = {"LATEST", "EARLIEST"}


class Fault(enum.Enum):
    """The fault of one operation."""

    BEFORE = "fails, and nothing was done"
    AFTER = "is done, and reported as failed"
    TORN = "is done in part, and fails"
    STALE = "is a listing that misses the last few changes"
    SLOW = "takes a minute"
    DENIED = "is done, and a create is answered as if another file had the name"
    LATE = "fails, and is done a few operations later"
    DIES_BEFORE = "the process dies, and nothing was done"
    DIES_AFTER = "is done, and the process dies"
    DIES_TORN = "is done in part, and the process dies"
    DIES_LATE = "the process dies, and it is done a few operations later"

    @property
    def deadly(self) -> bool:
        return self.name.startswith("DIES")


class StoreFailure(OSError):
    """The store refused the request, or did not answer."""


class Died(BaseException):
    """The process was killed.

    No `except` of the code under test may catch it, and nothing it does later has an effect.
    """


@dataclass(frozen=True, slots=True)
class Operation:
    number: int
    name: str
    path: str
    fault: Fault | None = None

    def __str__(self) -> str:
        return f"{self.number} {self.name} {self.path}" + (f" ({self.fault.value})" if self.fault else "")


Faults = Callable[[Operation], Fault | None]
MUTATIONS = {"create", "write", "close", "delete", "delete_tree", "rename_tree", "mkdirs"}


def never(operation: Operation) -> Fault | None:
    return None


def at(number: int, fault: Fault) -> Faults:
    """Return faults with this fault at a single operation, counted from 1."""
    return lambda operation: fault if operation.number == number else None


def sometimes(rate: float, seed: int, kinds: tuple[Fault, ...] = tuple(Fault)) -> Faults:
    """Return faults in which each operation fails with this probability."""
    draw = random.Random(seed)
    return lambda operation: draw.choice(kinds) if draw.random() < rate else None


@dataclass(slots=True)
class SimClock:
    """A clock that only advances by a millisecond per operation and by what `pass_` adds."""

    millis: int = START

    def __call__(self) -> int:
        return self.millis

    def pass_(self, millis: int) -> None:
        self.millis += millis


@dataclass(slots=True)
class Disk:
    """Files and folders in memory, with the order of their changes: the state that survives every crash."""

    clock: SimClock = field(default_factory=SimClock)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    # The files and folders in each folder: a listing must not look at the whole disk.
    inside: dict[str, set[str]] = field(default_factory=dict)
    # The entry of each changed path before the change, oldest first.
    journal: list[tuple[str, Entry | None]] = field(default_factory=list)
    # Requests in transit: after how many operations each arrives, and its effect.
    under_way: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    # What each folder contains, until it changes.
    _listed: dict[str, dict[str, Entry]] = field(default_factory=dict)
    # The files in listings, each with the content that it has.
    _entries: dict[str, tuple[tuple[bytes, int], Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in (*self.files, *self.folders):
            self._enter(path)

    def pass_operation(self) -> None:
        waiting, self.under_way = self.under_way, []
        for left, effect in waiting:
            if left:
                self.under_way.append((left - 1, effect))
            else:
                effect()

    def settle(self) -> None:
        """Let all requests in transit arrive."""
        while self.under_way:
            self.pass_operation()

    def put(self, path: str, data: bytes) -> None:
        self.journal.append((path, self.entry(path)))
        self.mkdirs(parent(path))
        self.files[path] = (bytes(data), self.clock())
        self._enter(path)

    def remove(self, path: str) -> None:
        self.journal.append((path, self.entry(path)))
        del self.files[path]
        self._leave(path)

    def mkdirs(self, path: str) -> None:
        while path and path not in self.folders:
            self.folders.add(path)
            self._enter(path)
            path = parent(path)

    def rmdirs(self, paths: Collection[str]) -> None:
        """Remove these folders, without a look at what they contain."""
        for path in self.folders & set(paths):
            self.folders.remove(path)
            self._leave(path)

    def _enter(self, path: str) -> None:
        folder = parent(path)
        self.inside.setdefault(folder, set()).add(path)
        self._listed.pop(folder, None)

    def _leave(self, path: str) -> None:
        self._listed.pop(parent(path), None)
        # A file and a folder may have one name, as in an object store.
        if path not in self.files and path not in self.folders:
            self.inside[parent(path)].discard(path)

    def entry(self, path: str) -> Entry | None:
        content = self.files.get(path)
        if content is not None:
            known = self._entries.get(path)
            if known is None or known[0] is not content:
                name, (data, modified) = path.rpartition("/")[2], content
                known = self._entries[path] = content, Entry(name, len(data), is_dir=False, modified=modified)
            return known[1]
        return Entry(path.rpartition("/")[2], 0, is_dir=True) if path in self.folders else None

    def below(self, path: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(path + "/"))

    def list(self, path: str) -> dict[str, Entry]:
        found = self._listed.get(path)
        if found is None:
            inside = sorted(name for name in self.inside.get(path, ()) if name != path)
            found = self._listed[path] = {name: entry for name in inside if (entry := self.entry(name)) is not None}
        return dict(found)

    def list_as_before(self, path: str, changes: int) -> dict[str, Entry]:
        """Return the listing as it was `changes` changes ago."""
        found = self.list(path)
        for name, before in reversed(self.journal[-changes:]):
            if parent(name) == path:
                found.pop(name, None)
                if before is not None:
                    found[name] = before
        return found


class SimStore:
    """One process's view of a disk; implements `Storage`."""

    def __init__(
        self,
        disk: Disk,
        faults: Faults = never,
        seed: int = 0,
        log: list[Operation] | None = None,
        turn: Callable[[Operation], None] = lambda _: None,
        *,
        threads_in_turn: bool = False,
    ) -> None:
        """Open the disk.

        `log` continues that of the previous process; `turn` is called before each operation and may block. Other
        threads than the present one are refused, unless the caller lets `threads_in_turn` work one after the other.
        """
        self.disk, self.faults, self._turn = disk, faults, turn
        self.log: list[Operation] = [] if log is None else log
        self._random = random.Random(seed)
        self._dead = False
        self._thread = None if threads_in_turn else threading.get_ident()

    def __repr__(self) -> str:
        return f"SimStore({len(self.disk.files)} files, {len(self.log)} operations)"

    def files(self, below: str = "") -> Iterator[str]:
        """Yield every existing file, without faults or counting: for invariants."""
        return (path for path in sorted(self.disk.files) if path.startswith(below))

    @property
    def has_died(self) -> bool:
        """Whether the process was killed: an engine that reads in threads of its own raises another error then."""
        return self._dead

    @contextlib.contextmanager
    def threads_take_turns(self) -> Iterator[None]:
        """Let other threads use the store within this block, one after the other."""
        thread, self._thread = self._thread, None
        try:
            yield
        finally:
            self._thread = thread

    # Operations that the table calls --------------------------------------------------------------------------

    @property
    def longest_name(self) -> int:
        return 255

    @property
    def url_prefix(self) -> str:
        return ""

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self._content(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._do("read_range", path, lambda: self._content(path)[offset : offset + length])

    def size(self, path: str) -> int:
        return self._do("size", path, lambda: len(self._content(path)))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: path in self.disk.files or path in self.disk.folders)

    def create(self, path: str, data: bytes) -> bool:
        def whole() -> bool:
            if self.disk.entry(path) is not None:
                return False
            self.disk.put(path, data)
            return True

        return self._do("create", path, whole, lambda: self._put_part_aside(path, data))

    def write(self, path: str, data: bytes) -> None:
        # A power failure may damage a hint on a local disk, where it is not synced.
        if path.rpartition("/")[2] in HINTS:
            self._put("write", path, data)
        else:
            self._do("write", path, lambda: self.disk.put(path, data), lambda: self._put_part_aside(path, data))

    def list(self, path: str) -> list[Entry]:
        found = self._do("list", path, lambda: list(self.disk.list(path).values()))
        if self.log[-1].fault is Fault.STALE:
            found = list(self.disk.list_as_before(path, self._random.randint(1, STALE_BY)).values())
        # Stores promise no order of listings.
        self._random.shuffle(found)
        return found

    def walk(self, path: str) -> Iterator[Entry]:
        for entry in self.list(path):
            if entry.is_dir:
                yield from (
                    replace(below, name=f"{entry.name}/{below.name}") for below in self.walk(f"{path}/{entry.name}")
                )
            else:
                yield entry

    def delete(self, path: str) -> None:
        def whole() -> None:
            if path in self.disk.files:
                self.disk.remove(path)
            elif path in self.disk.folders and not self.disk.list(path):
                self.disk.rmdirs([path])

        self._do("delete", path, whole)

    def delete_tree(self, path: str) -> None:
        def some(names: list[str]) -> None:
            for name in names:
                self.disk.remove(name)

        def whole() -> None:
            some(self.disk.below(path))
            self.disk.rmdirs([name for name in self.disk.folders if name == path or name.startswith(path + "/")])

        self._do("delete_tree", path, whole, lambda: some(self._part(self.disk.below(path))))

    def rename_tree(self, source: str, target: str, moved: Callable[[], None] | None = None) -> None:
        def copied(names: list[str]) -> None:
            for name in names:
                self.disk.put(target + name.removeprefix(source), self.disk.files[name][0])

        def whole() -> None:
            if self.disk.entry(target) is not None:
                raise FileExistsError(target)
            names = self.disk.below(source)
            copied(names)
            for name in names:
                self.disk.remove(name)
            for name in [name for name in self.disk.folders if name == source or name.startswith(source + "/")]:
                self.disk.rmdirs([name])
                self.disk.mkdirs(target + name.removeprefix(source))

        # Object stores delete the files when all of them are copied.
        self._do("rename_tree", source, whole, lambda: copied(self._part(self.disk.below(source))))
        if moved is not None:
            moved()

    def mkdirs(self, path: str) -> None:
        self._do("mkdirs", path, lambda: self.disk.mkdirs(path))

    def open_input(self, path: str) -> Any:
        return pa.BufferReader(self._do("open_input", path, lambda: self._content(path)))

    def open_output(self, path: str) -> Any:
        self._do("open_output", path, lambda: None)
        return pa.PythonFile(Upload(lambda data: self._put("close", path, data)), mode="w")

    # Execution of an operation --------------------------------------------------------------------------------

    def _put_part_aside(self, path: str, data: bytes) -> None:
        """Leave a part of the local store's temporary file: all stores replace a file as a whole."""
        folder, _, name = path.rpartition("/")
        self.disk.put(f"{folder}/.{name}.{self._random.getrandbits(64):016x}.tmp", self._part(data))

    def _put(self, name: str, path: str, data: bytes) -> None:
        self._do(name, path, lambda: self.disk.put(path, data), lambda: self.disk.put(path, self._part(data)))

    def _do(self, name: str, path: str, whole: Callable[[], T], torn: Callable[[], object] | None = None) -> T:
        if self._dead:
            raise Died
        # Threads would make the order of operations one of chance, so that equal seeds would not be equal runs.
        alone = self._thread is None or threading.get_ident() == self._thread
        assert alone, f"{name} {path}: a second thread uses this simulated store"
        plain = Operation(len(self.log) + 1, name, path)
        self._turn(plain)
        if self.faults is not never:  # a checker without faults must not change the disk
            self.disk.pass_operation()
        fault = self.faults(plain)
        operation = plain if fault is None else Operation(plain.number, name, path, fault)
        self.log.append(operation)
        self.disk.clock.pass_(SLOW_MILLIS if fault is Fault.SLOW else 1)
        if fault is None or fault is Fault.SLOW or fault is Fault.STALE:
            return whole()
        if fault is Fault.DENIED:
            done = whole()
            # As for a client that repeats a request whose answer was lost: its own first try has created the file.
            return False if name == "create" else done  # type: ignore[return-value] # the T of a create is bool
        # A read that arrives late has no effect, so it only fails.
        if fault in {Fault.LATE, Fault.DIES_LATE} and name in MUTATIONS:
            self.disk.under_way.append((self._random.randint(1, LATE_BY), _arriving(whole)))
        elif fault in {Fault.AFTER, Fault.DIES_AFTER}:
            whole()
        elif fault in {Fault.TORN, Fault.DIES_TORN} and torn is not None:
            torn()
        if fault.deadly:
            self._dead = True
            raise Died(str(operation))
        raise StoreFailure(str(operation))

    def _content(self, path: str) -> bytes:
        if path not in self.disk.files:
            raise FileNotFoundError(path)
        return self.disk.files[path][0]

    def _part(self, whole: Any) -> Any:
        # Of data a prefix, of a list of files the first ones. Never the whole, which would be no tear.
        return whole[: self._random.randrange(len(whole))] if whole else whole


class Upload:
    """A file that exists once it is closed."""

    def __init__(self, finish: Callable[[bytes], None]) -> None:
        self._finish, self._parts, self._size = finish, [], 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._finish(b"".join(self._parts))


def _arriving(effect: Callable[[], object]) -> Callable[[], None]:
    """Return the effect of a request whose reply no process waits for; its errors are dropped."""

    def arrive() -> None:
        with contextlib.suppress(OSError):
            effect()

    return arrive


def parent(path: str) -> str:
    return path.rpartition("/")[0]
