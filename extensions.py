"""Named objects of one kind, such as message formats: the ones of Penstock, and the ones that other packages add.

A package adds an object by an entry point, whose name is the object's name. Its module is imported when the name is
first used, so a broken package disturbs only the pipelines that name it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock import late_pandas
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extensions(Generic[T]):
    """The known objects of one kind.

    `built_in` maps a name to the object, or to its place as `module:attribute`, which is imported when it is first
    used. A name that is built in cannot be replaced by an entry point of `group`.
    """

    group: str
    kind: type[Any]  # of the objects; may be abstract, which type[T] may not
    built_in: Mapping[str, T | str]
    check: Callable[[T], None] | None = None  # of each object that is found; raises ConfigError

    def names(self) -> list[str]:
        """Return the names of all objects: first the built-in ones, in their order."""
        return [*self.built_in, *sorted(_entries(self.group).keys() - self.built_in.keys())]

    def find(self, name: str) -> T | None:
        """Return the object; None if the name is unknown; ConfigError if its package cannot be imported."""
        # Entry points are read only for names that are not built in: finding them takes long.
        found: object = self.built_in.get(name)
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = getattr(import_module(module), attribute)
        elif found is None:
            entry = _entries(self.group).get(name)
            found = None if entry is None else loaded(entry)
        if found is None or isinstance(found, self.kind):
            if found is not None and self.check is not None:
                self.check(found)
            return found
        raise ConfigError(
            f"the entry point {name} of {self.group} is not a {self.kind.__name__}",
            value=_entries(self.group)[name].value,
            found=type(found).__name__,
            hint="update or uninstall the package that registers this entry point",
        )

    def importable(self) -> dict[str, T]:
        """Return all objects by name, without those of packages that cannot be imported; these are logged."""
        found: dict[str, T] = {}
        for name in self.names():
            try:
                extension = self.find(name)
            except ConfigError as error:
                log.warning("event=extension_not_imported group=%s name=%s reason=%s", self.group, name, error.message)
                continue
            if extension is not None:
                found[name] = extension
        return found


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and built-in objects do not need it

    return {entry.name: entry for entry in entry_points(group=group)}


def loaded(entry: EntryPoint) -> Any:
    """Return the object of an entry point; ConfigError if its package cannot be imported."""
    late_pandas.needed()  # the package knows Arrow with pandas
    try:
        return entry.load()
    # A missing module, or a module without the attribute: the package does not fit. Other errors are bugs of the
    # package and keep their traceback.
    except (ImportError, AttributeError) as error:
        package = None if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
        raise ConfigError(
            f"{entry.name} cannot be imported: {error}",
            entry_point=f"{entry.group}: {entry.value}",
            package=package,
            hint="install what the package needs, or a version that fits",
        ) from error
