"""Pipelines described by the flags of a sync action."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.pipelines.commands.pipeline_choice import spec_of_flags
from penstock.pipelines.config.model import PipelineSpec


def spec_of_action(name: str, words: Sequence[str]) -> PipelineSpec:
    """Return the pipeline that an action with these flags would run."""
    spec, _ = spec_of_flags("run", [name, *words], (), "Run it.")
    return spec
