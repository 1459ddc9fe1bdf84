"""Runs several actors on one disk, in every order that a bounded number of interruptions can produce.

    for order in orders(bound=2):
        run(order, {"writer": writer, "compactor": compactor}, disk)

Each actor is a function that receives a store. Its operations wait for their turn; an actor continues until it ends or
the order interrupts it. Orders are enumerated without repetition: after each run, the last choice that still has
another option is changed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation.store import Disk, Operation, SimStore

Actor = Callable[[SimStore], None]


class Choice(Protocol):
    """Chooses the next actor, each time that all actors wait at an operation."""

    def choose(self, running: str | None, waiting: list[str]) -> str: ...


@dataclass(slots=True)
class Order:
    """A path of choices. `taken` are the fixed choices; beyond them the first option is chosen each time."""

    taken: list[int]
    bound: int
    options: list[int] = field(default_factory=list)
    interruptions: int = 0

    def choose(self, running: str | None, waiting: list[str]) -> str:
        """Return the actor that continues. The first option is the running actor; any other costs an interruption."""
        if running in waiting:
            if self.interruptions >= self.bound:
                return str(running)
            waiting = [str(running), *(name for name in waiting if name != running)]
        place = len(self.options)
        choice = self.taken[place] if place < len(self.taken) else 0
        self.options.append(len(waiting))
        if place >= len(self.taken):
            self.taken.append(choice)
        if running in waiting and choice:
            self.interruptions += 1
        return waiting[choice]


@dataclass(slots=True)
class RandomOrder:
    """An order drawn from a seed: the running actor is interrupted at each operation with probability `rate`."""

    seed: int
    rate: float = 0.1
    _draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)

    def choose(self, running: str | None, waiting: list[str]) -> str:
        if running in waiting and self._draw.random() >= self.rate:
            return str(running)
        return self._draw.choice(waiting)


def orders(bound: int, most: int | None = None) -> Iterator[Order]:
    """Yield every order with at most `bound` interruptions. Each must be run before the next is requested."""
    taken: list[int] = []
    made = 0
    while most is None or made < most:
        # The path is fixed up to its last choice. The run appends the choices beyond it, and how many options each
        # had.
        order = Order(taken, bound)
        yield order
        made += 1
        taken = order.taken[: len(order.options)]
        while taken and taken[-1] + 1 >= order.options[len(taken) - 1]:
            taken.pop()
        if not taken:
            return
        taken[-1] += 1


class _Stage:
    """Lets one actor act at a time, while the others wait at their next operation."""

    def __init__(self, names: list[str], order: Choice) -> None:
        self._order, self._turn = order, threading.Condition()
        self._waiting: set[str] = set()
        self._left = set(names)
        self._running: str | None = None
        self._chosen: str | None = None

    def wait_for_turn(self, name: str) -> None:
        with self._turn:
            self._waiting.add(name)
            self._choose()
            self._turn.wait_for(lambda: self._chosen == name)
            self._chosen = None
            self._waiting.remove(name)

    def leave(self, name: str) -> None:
        with self._turn:
            self._left.remove(name)
            self._choose()

    def _choose(self) -> None:
        # Only when all actors wait is one chosen, so that one acts at a time and the order alone decides what
        # happens.
        if self._chosen is None and self._waiting == self._left and self._left:
            self._running = self._chosen = self._order.choose(self._running, sorted(self._waiting))
            self._turn.notify_all()


def is_seen(operation: Operation) -> bool:
    """Return whether another actor may notice when this operation happens.

    Files have unique names, so writing a file is noticed only through the snapshot that names it.
    """
    return "/snapshot/" in operation.path or operation.name in {"create", "delete", "delete_tree", "list"}


def run(
    order: Choice,
    actors: Mapping[str, Actor],
    disk: Disk,
    *,
    store: Callable[..., SimStore] = SimStore,
    whole: Collection[str] = (),
    interrupts: Callable[[Operation], bool] = is_seen,
) -> None:
    """Run the actors to their ends, and raise what one of them raises.

    An actor may be interrupted before each operation that `interrupts` selects, but actors in `whole` run without
    interruption.
    """
    stage = _Stage(list(actors), order)
    raised: list[BaseException] = []

    def act(name: str, actor: Actor) -> None:
        begun = False

        def turn(operation: Operation) -> None:
            nonlocal begun
            # Every actor waits at its first operation, so that the order also decides who begins.
            if not begun or (name not in whole and interrupts(operation)):
                begun = True
                stage.wait_for_turn(name)

        try:
            actor(store(disk, turn=turn))
        except BaseException as error:  # noqa: BLE001  it is raised again below
            raised.append(error)
        finally:
            stage.leave(name)

    threads = [threading.Thread(target=act, args=pair, name=pair[0]) for pair in actors.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
