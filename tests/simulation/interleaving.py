"""Several actors on one disk, in every order of their operations that a bounded number of interruptions can make.

    for order in orders(bound=2):
        run(order, {"writer": writer, "compactor": compactor}, disk)

Each actor is a function that is given a store. Its operations wait for their turn; an actor goes on until it ends
or the order interrupts it. Orders are enumerated without repetition: after each run the last choice that can be
changed is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.simulation.store import Disk, Operation, SimStore

Actor = Callable[[SimStore], None]


@dataclass(slots=True)
class Order:
    """A path of choices: `taken` are given, what lies beyond is the first option each time."""

    taken: list[int]
    bound: int
    options: list[int] = field(default_factory=list)
    interruptions: int = 0

    def choose(self, running: str | None, waiting: list[str]) -> str:
        """Who goes on. The first option is whoever is running; any other costs an interruption."""
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


def orders(bound: int, most: int | None = None) -> Iterator[Order]:
    """Every order with at most `bound` interruptions; each must be run before the next is asked for."""
    taken: list[int] = []
    made = 0
    while most is None or made < most:
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
    """One actor acts at a time; the others stand at their next operation."""

    def __init__(self, names: list[str], order: Order) -> None:
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
        if self._chosen is None and self._waiting == self._left and self._left:
            self._running = self._chosen = self._order.choose(self._running, sorted(self._waiting))
            self._turn.notify_all()


def run(order: Order, actors: Mapping[str, Actor], disk: Disk) -> None:
    """Play the actors to their ends; what one of them raises is raised here."""
    stage = _Stage(list(actors), order)
    raised: list[BaseException] = []

    def act(name: str, actor: Actor) -> None:
        def turn(operation: Operation) -> None:
            if operation.name not in {"read", "read_range", "size"} or "/snapshot/" in operation.path:
                stage.wait_for_turn(name)

        try:
            actor(SimStore(disk, turn=turn))
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
