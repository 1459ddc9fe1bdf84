"""Statements that change the session alone, as values: its catalogs, views, options and statement sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.table.sql.grammar.cursor import TextPlace


@dataclass(frozen=True, slots=True)
class View:
    """CREATE or DROP of a temporary view, which lives as long as the session.

    With `or_kept`, DROP means a view of the catalog if there is no temporary one.
    """

    name: str
    text: str
    dropped: bool = False
    must_exist: bool = False
    unless_exists: bool = False
    or_kept: bool = False


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """CREATE CATALOG, for the rest of the script."""

    name: str
    if_not_exists: bool
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropCatalog:
    """DROP CATALOG."""

    name: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Use:
    """USE: the database of names without one, in this catalog or in another."""

    database: str | None
    catalog: str | None = None


@dataclass(frozen=True, slots=True)
class SessionOption:
    """SET of a session option; without a value RESET, and without a key RESET of all options.

    SET alone, which lists the options that are set, has an empty value and no key.
    """

    key: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class StatementSet:
    """The beginning of a statement set, perhaps with its first INSERT and the place of that in the script."""

    first: str = ""
    place: TextPlace | None = None


@dataclass(frozen=True, slots=True)
class StatementSetEnd:
    """END of a statement set."""
