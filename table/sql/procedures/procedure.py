"""A procedure of CALL: its parameters, and the values that a call gives them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.table.catalog.base import parse_name
from penstock.table.options.kinds import parse_duration

if TYPE_CHECKING:
    from penstock.table.catalog.catalog import Catalog
    from penstock.table.handle import Table
    from penstock.table.meta.snapshot import Snapshot
    from penstock.table.operations.executor import Executor

log = logging.getLogger(__name__)

_PARTITIONS = "write partitions as 'dt=1,hh=2;dt=2,hh=3'"
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of a call as texts, by the procedure's names of its parameters.

    `executor` runs the units of its actions; None for the one that an action has by default.
    """

    texts: Mapping[str, str]
    executor: Executor | None = None

    def text(self, name: str) -> str | None:
        """Return a value, None if it is not given."""
        return self.texts.get(name)

    def needed(self, name: str) -> str:
        """Return the value of a required parameter."""
        return self.texts[name]

    def number(self, name: str) -> int | None:
        """Return an integer, None if it is not given."""
        text = self.texts.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d+", text):
            raise ConfigError(
                f"the argument {name!r} must be an integer, not {text!r}", hint=f"for example  {name} => 1"
            )
        return int(text)

    def moment(self, name: str) -> int | str | None:
        """Return a point in time: epoch milliseconds, or a text such as 2026-01-31 12:00:00."""
        text = self.texts.get(name)
        return int(text) if text is not None and text.isdecimal() else text

    def millis(self, name: str) -> int | None:
        """Return a duration such as `7 d` in milliseconds, None if it is not given."""
        text = self.texts.get(name)
        return None if text is None else parse_duration(text)

    def flag(self, name: str) -> bool:
        """Return a boolean, false if it is not given."""
        text = self.texts.get(name, "false").lower()
        if text not in _TRUTH:
            raise ConfigError(
                f"the argument {name!r} must be true or false, not {text!r}", hint=f"for example  {name} => true"
            )
        return _TRUTH[text]

    def names(self, name: str) -> list[str]:
        """Return the names of a list that is separated by commas; those of a list in JSON may contain commas."""
        text = self.texts.get(name, "")
        if text.startswith('["') and text.endswith('"]'):
            return [str(part) for part in json.loads(text)]
        return [part.strip() for part in text.split(",") if part.strip()]

    def options(self, name: str) -> dict[str, str]:
        """Return options that are written as `key=value,key2=value2`."""
        found: dict[str, str] = {}
        for part in self.names(name):
            key, equals, value = part.partition("=")
            if not equals:
                raise ConfigError(
                    f"{part!r} in the argument {name!r} is not an option", hint="write key=value,key2=value2"
                )
            if key.strip() in found:
                raise ConfigError(f"the argument {name!r} sets {key.strip()!r} twice", hint="keep one of the two")
            found[key.strip()] = value.strip()
        return found

    def partitions(self, name: str) -> list[dict[str, object]] | None:
        """Return partitions that are written as `dt=1,hh=2;dt=2,hh=3`, None if they are not given."""
        if name not in self.texts:
            return None
        specs: list[dict[str, object]] = []
        for text in self.texts[name].split(";"):
            pairs = [part.partition("=") for part in text.split(",")]
            if any(not equals for _, equals, _ in pairs):
                raise ConfigError(f"{text!r} is not a partition", hint=_PARTITIONS)
            specs.append({key.strip(): value.strip().strip("'") for key, _, value in pairs})
            if len(specs[-1]) < len(pairs):
                raise ConfigError(f"the partition {text!r} contains a column twice", hint=_PARTITIONS)
        return specs

    def expression(self, name: str) -> re.Pattern[str] | None:
        """Return a regular expression, None if it is not given."""
        text = self.texts.get(name)
        try:
            return None if text is None else re.compile(text)
        except re.error as reason:
            raise ConfigError(
                f"the argument {name!r} is not a regular expression: {reason}",
                hint="escape characters that are meant literally with a backslash, such as  \\(",
            ) from reason

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of several words, the first if it is not given."""
        text = self.texts.get(name, choices[0]).lower()
        if text not in choices:
            raise ConfigError(f"the argument {name!r} cannot be {text!r}", hint=f"choices are {', '.join(choices)}")
        return text


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: its parameters in order (the first `required` of them must be set), and the function that it calls.

    Names and order are the same as in Paimon for Flink. `aliases` are other names of them, mostly Paimon's for Spark.
    `unused` are parameters of Paimon that have no effect here; in its procedures they come after the others.
    """

    parameters: tuple[str, ...]
    required: int
    run: Callable[[Catalog, Arguments], object]
    aliases: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Return the parameters in the order in which a call by place gives them."""
        return (*self.parameters, *self.unused)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names that a call may use. The names of `places` come first, and only they have a place."""
        return (*self.places, *self.aliases)

    def usage(self, name: str) -> str:
        """Return how the procedure is called by this name."""
        return f"CALL sys.{name}({', '.join(self.parameters)})"

    def bound(self, name: str, given: Mapping[str, str]) -> Arguments:
        """Return the values of a call by the names of the parameters.

        An empty text is no value: calls by place in Flink write it for parameters that they leave out.
        """
        known = {name.lower(): self.aliases.get(name, name) for name in self.names}
        texts: dict[str, str] = {}
        for written, text in given.items():
            parameter = known.get(written.lower())
            if parameter is None or parameter in texts:
                why = "unknown" if parameter is None else "set twice"
                raise ConfigError(f"the argument {written!r} of {name} is {why}", hint=self.usage(name))
            if parameter in self.unused:
                log.warning("event=argument_without_effect procedure=%s argument=%s", name, written)
            elif text != "":
                texts[parameter] = text
        missing = [parameter for parameter in self.parameters[: self.required] if parameter not in texts]
        if missing:
            raise ConfigError(f"{name} needs the argument {missing[0]!r}", hint=self.usage(name))
        return Arguments(texts)


def table_of(catalog: Catalog, given: Arguments, parameter: str = "table") -> Table:
    """Return the table that an argument names; ConfigError for a system table."""
    name = given.needed(parameter)
    if parse_name(name)[2] is not None:
        raise ConfigError(f"{name} is a system table", hint="system tables can be read, but not changed")
    return catalog.table(name)


def snapshot_texts(snapshots: Sequence[Snapshot], nothing: str) -> list[str]:
    """Return the ids of new snapshots as results of a call, or `nothing` without any."""
    return [f"snapshot {snapshot.id}" for snapshot in snapshots] or [nothing]
