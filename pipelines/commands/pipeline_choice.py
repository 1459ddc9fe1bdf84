"""The pipeline of a command: by its file, by its name in a warehouse, or by a sync action with its flags."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse, parse_with_word
from penstock.pipelines.commands.target import WAREHOUSE, text
from penstock.pipelines.config.flags import SyncAction, all_actions, sync_action

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec
    from penstock.table.catalog.settings import CatalogSettings


# The help of the commands that accept either.
FILE_OR_ACTION = "the pipeline, as YAML; or a sync action such as mysql-sync-database, whose flags follow it"
WHERE = (
    *WAREHOUSE,
    Flag("checkpoint", "folder of the checkpoint (default: <warehouse>/_penstock/<name>)", metavar="PATH"),
)


@dataclass(frozen=True, slots=True)
class NamedPipeline:
    """A pipeline that a command line names. `spec` is set if it names a file or an action."""

    name: str
    checkpoint: str
    warehouse: CatalogSettings
    databases: Sequence[str]
    spec: PipelineSpec | None = None
    file: str | None = None

    def command(self, verb: str, *words: str) -> str:
        """Return the command line that runs the command `verb` for the same pipeline."""
        if self.file is not None:
            return shlex.join(["penstock", verb, self.file, *words])
        if verb == "run":  # which takes a file alone
            return shlex.join(["penstock", verb, "FILE", *words])
        return shlex.join(["penstock", verb, self.name, *words, "--warehouse", self.warehouse.warehouse])


def file_given(command: str, flags: Sequence[Flag], words: list[str], does: str) -> tuple[Path, Flags]:
    word, given = parse_with_word(command, flags, words, does, "FILE", FILE_OR_ACTION)
    if word is None:
        raise ConfigError("no pipeline is given", hint=f"penstock {command} pipeline.yaml")
    return Path(word), given


def named(word: str | None, flags: Flags, command: str) -> NamedPipeline:
    from penstock.pipelines.config import yaml_file
    from penstock.pipelines.config.sink import default_checkpoint
    from penstock.storage.open import one_place
    from penstock.table.catalog.registry import DEFAULT
    from penstock.table.catalog.settings import CatalogSettings

    if word is None:
        raise ConfigError("no pipeline is given", hint=f"penstock {command} pipeline.yaml, or NAME --warehouse PATH")
    checkpoint = text(flags, "checkpoint")
    if word.endswith((".yaml", ".yml")) or Path(word).is_file():
        return of_spec(yaml_file.load(Path(word)), checkpoint, word)
    options = pairs(flags.get("catalog-conf", ()))
    location = one_place("--warehouse", text(flags, "warehouse"), "--catalog-conf", options.pop("warehouse", None))
    if location is None:
        raise ConfigError(
            f"file {word} does not exist",
            hint=f"to select a pipeline by name, add its warehouse: penstock {command} {word} --warehouse PATH",
        )
    checkpoint = checkpoint or default_checkpoint(location, options.get("metastore", DEFAULT), word)
    settings = CatalogSettings.of(location, options)
    return NamedPipeline(word, checkpoint, settings, settings.open().databases())


def of_spec(spec: PipelineSpec, checkpoint: str | None = None, file: str | None = None) -> NamedPipeline:
    """Return the pipeline that a file or the flags of an action describe."""
    from penstock.pipelines.mapping.target_tables import settings_of

    settings = settings_of(spec.sink.catalog)
    databases = settings.open().databases()
    return NamedPipeline(spec.pipeline.name, checkpoint or spec.checkpoint, settings, databases, spec, file)


_SECRET = re.compile(r"password|secret|jaas|token|access[.-]?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{.+\}")


def action_of(words: Sequence[str]) -> SyncAction | None:
    """Return the action that the words begin with, None if they name a file."""
    return sync_action(words[0].lower().replace("_", "-")) if words else None


def spec_of_flags(command: str, words: Sequence[str], flags: Sequence[Flag], does: str) -> tuple[PipelineSpec, Flags]:
    """Return the pipeline that an action's flags describe. `flags` are the flags of the command itself."""
    from penstock.pipelines.config.load import parsed

    values, given = values_of_flags(command, words, flags, does)
    return parsed(values), given


def values_of_flags(
    command: str, words: Sequence[str], flags: Sequence[Flag], does: str
) -> tuple[dict[str, Any], Flags]:
    """Return the same pipeline under the keys of a pipeline file."""
    from penstock.pipelines.config.sync_pipeline import action_values

    action = action_of(words)
    if action is None:
        raise ConfigError(f"{words[0]!r} is not a sync action", hint=", ".join(all_actions()))
    # A flag of the command wins over a flag of the action with the same name.
    own = {flag.name for flag in flags}
    all_flags = (*(flag for flag in action.flags if flag.name not in own), *flags)
    given = parse(f"{command} {action.name}", all_flags, list(words[1:]), does)
    return action_values(action, given), given


def file_of(values: dict[str, Any], spec: PipelineSpec) -> tuple[str, tuple[str, ...]]:
    """Return the text of a pipeline file, and the environment variables that it refers to for secrets.

    `spec` is the pipeline of the values, whose numbers are numbers: flags are texts.
    """
    import yaml

    variables: list[str] = []
    kind = str(values["source"].get("type", "source"))
    kept = _without_secrets(_typed(_filled(values), spec.model_dump(by_alias=True)), (kind,), variables)
    text = yaml.safe_dump({"version": 1, **kept}, sort_keys=False, allow_unicode=True, width=120)
    return text, tuple(variables)


def _filled(value: Any) -> Any:
    """Return the value without empty entries, and with other objects as text."""
    match value:
        case dict():
            found = {str(name): _filled(member) for name, member in value.items()}
            return {name: member for name, member in found.items() if member not in (None, {}, [])}
        case list() | tuple():
            return [_filled(member) for member in value]
        case bool() | int() | float() | None:
            return value
    return str(value)


def _typed(value: Any, meant: Any) -> Any:
    """Return the value with texts of numbers and of true and false as these, where the pipeline has them."""
    match value, meant:
        case dict(), dict():
            return {name: _typed(member, meant.get(name)) for name, member in value.items()}
        case str(), bool() | int() | float() if value == (
            str(meant).lower() if isinstance(meant, bool) else str(meant)
        ):
            return meant
    return value


def _without_secrets(value: Any, place: tuple[str, ...], variables: list[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(member, (*place, name), variables) for name, member in value.items()}
    if not (isinstance(value, str) and _SECRET.search(place[-1])) or _REFERENCE.search(value):
        return value
    # Flags may contain secrets in clear text. The file gets a reference to a variable, which the user has to
    # export.
    variable = re.sub(r"\W+", "_", f"{place[0]}_{place[-1]}").upper()
    variables.append(variable)
    return f"${{{variable}}}"
