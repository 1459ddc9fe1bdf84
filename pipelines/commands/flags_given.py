"""Flags of a sync action where a pipeline's file may stand: `penstock check mysql-sync-database --warehouse ...`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Given, parse
from penstock.pipelines.config.flags import (
    KAFKA_DATABASE,
    KAFKA_TABLE,
    MYSQL_DATABASE,
    MYSQL_TABLE,
    POSTGRES_DATABASE,
    POSTGRES_TABLE,
    Flag,
)

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec

ACTIONS = {
    "mysql-sync-table": MYSQL_TABLE,
    "mysql-sync-database": MYSQL_DATABASE,
    "postgres-sync-table": POSTGRES_TABLE,
    "postgres-sync-database": POSTGRES_DATABASE,
    "kafka-sync-table": KAFKA_TABLE,
    "kafka-sync-database": KAFKA_DATABASE,
}
_SECRET = re.compile(r"password|secret|jaas|token|access[.-]?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{.+\}")


def action_of(words: Sequence[str]) -> str | None:
    """The action that the words begin with, None where they name a file."""
    action = words[0].lower().replace("_", "-") if words else ""
    return action if action in ACTIONS else None


def spec_of_flags(command: str, words: Sequence[str], flags: Sequence[Flag], does: str) -> tuple[PipelineSpec, Given]:
    """The pipeline that an action's flags describe, among `flags` of the command itself."""
    from penstock.pipelines.config.load import parsed

    values, given = values_of_flags(command, words, flags, does)
    return parsed(values), given


def values_of_flags(
    command: str, words: Sequence[str], flags: Sequence[Flag], does: str
) -> tuple[dict[str, Any], Given]:
    """The same by the keys of a file."""
    from penstock.pipelines.config.sync_pipeline import action_values

    action = action_of(words)
    if action is None:
        raise ConfigError(f"{words[0]!r} is not a sync action", hint=", ".join(ACTIONS))
    own = {flag.name for flag in flags}
    all_flags = (*(flag for flag in ACTIONS[action] if flag.name not in own), *flags)
    given = parse(f"{command} {action}", all_flags, list(words[1:]), does)
    return action_values(action, given), given


def file_of(values: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The text of a pipeline's file, and the environment variables that stand in it for secrets."""
    import yaml

    variables: list[str] = []
    kind = str(values["source"].get("type", "source"))
    kept = _without_secrets(_filled(values), (kind,), variables)
    text = yaml.safe_dump({"version": 1, **kept}, sort_keys=False, allow_unicode=True, width=120)
    return text, tuple(variables)


def _filled(value: Any) -> Any:
    """Without what says nothing."""
    match value:
        case dict():
            found = {str(name): _filled(one) for name, one in value.items()}
            return {name: one for name, one in found.items() if one not in (None, {}, [])}
        case list() | tuple():
            return [_filled(one) for one in value]
        case bool() | int() | float() | None:
            return value
    return str(value)


def _without_secrets(value: Any, place: tuple[str, ...], variables: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(one, (*place, name), variables) for name, one in value.items()}
    if not (isinstance(value, str) and _SECRET.search(place[-1])) or _REFERENCE.search(value):
        return value
    variable = re.sub(r"\W+", "_", f"{place[0]}_{place[-1]}").upper()
    variables.append(variable)
    return f"${{{variable}}}"
