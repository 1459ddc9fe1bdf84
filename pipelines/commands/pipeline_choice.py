"""Which pipeline a command is about: a file, or a name in a warehouse."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Given, parse_with_word
from penstock.pipelines.commands.target import WAREHOUSE, text
from penstock.pipelines.config.flags import Flag, pairs

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec
    from penstock.table.catalog.settings import CatalogSettings

WHERE = (
    *WAREHOUSE,
    Flag("checkpoint", "folder of the checkpoint (default: <warehouse>/_penstock/<name>)", metavar="PATH"),
)


@dataclass(frozen=True, slots=True)
class NamedPipeline:
    """A pipeline that a command line names; `spec` is there where a file was named."""

    name: str
    checkpoint: str
    warehouse: CatalogSettings
    databases: Sequence[str]
    spec: PipelineSpec | None = None
    file: str | None = None

    def command(self, verb: str, *words: str) -> str:
        """The command line that asks `verb` of the same pipeline, to be copied."""
        if self.file is not None:
            return shlex.join(["penstock", verb, self.file, *words])
        if verb == "run":  # which takes a file alone
            return shlex.join(["penstock", verb, "FILE", *words])
        return shlex.join(["penstock", verb, self.name, *words, "--warehouse", self.warehouse.warehouse])


def file_given(command: str, flags: Sequence[Flag], words: list[str], does: str) -> tuple[Path, Given]:
    word, given = parse_with_word(command, flags, words, does, "FILE", "the pipeline, as YAML")
    if word is None:
        raise ConfigError("no pipeline is given", hint=f"penstock {command} pipeline.yaml")
    return Path(word), given


def named(word: str | None, given: Given, command: str) -> NamedPipeline:
    from penstock.pipelines.config import yaml_file
    from penstock.table.catalog.settings import CatalogSettings

    if word is None:
        raise ConfigError("no pipeline is given", hint=f"penstock {command} pipeline.yaml, or NAME --warehouse PATH")
    checkpoint = text(given, "checkpoint")
    if word.endswith((".yaml", ".yml")) or Path(word).is_file():
        return of_spec(yaml_file.load(Path(word)), checkpoint, word)
    options = pairs(given.get("catalog-conf", ()))
    location = options.pop("warehouse", None) or text(given, "warehouse")
    if location is None:
        raise ConfigError(
            f"file {word} does not exist",
            hint=f"to select a pipeline by name, add its warehouse: penstock {command} {word} --warehouse PATH",
        )
    checkpoint = checkpoint or f"{location.rstrip('/')}/_penstock/{word}"
    settings = CatalogSettings.of(location, options)
    return NamedPipeline(word, checkpoint, settings, settings.open().databases())


def of_spec(spec: PipelineSpec, checkpoint: str | None = None, file: str | None = None) -> NamedPipeline:
    """Return the pipeline that a file or the flags of an action describe."""
    from penstock.pipelines.mapping.target_tables import settings_of

    settings = settings_of(spec.sink.catalog)
    databases = settings.open().databases()
    return NamedPipeline(spec.pipeline.name, checkpoint or spec.checkpoint, settings, databases, spec, file)
