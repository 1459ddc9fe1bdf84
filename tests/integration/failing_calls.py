"""Calls that fail in this process when they are made for the n-th time, as if a connection or the process were lost."""

from __future__ import annotations

from collections.abc import Callable

import pymysql


class Killed(BaseException):
    """The process dies here."""


class Countdown:
    """Calls `fails` when a function is called for the `at`th time, before it does anything or after it has done it."""

    def __init__(self, at: int, fails: Callable[[], None], *, after: bool = False, counts: bool = True) -> None:
        self.left, self.fails, self.after, self.counts = at, fails, after, counts

    def around(self, function: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            self.left -= self.counts
            is_due = self.left == 0 and self.counts
            if is_due and not self.after:
                self.fails()
            result = function(*args, **kwargs)
            if is_due and self.after:
                self.fails()
            return result

        return counted

    def within(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return the function such that calls are counted while it runs."""

        def around(*args: object, **kwargs: object) -> object:
            self.counts = True
            try:
                return function(*args, **kwargs)
            finally:
                self.counts = False

        return around


def lose_connection() -> None:
    raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")


def die() -> None:
    raise Killed
