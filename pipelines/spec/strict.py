"""What every section of a pipeline file shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict

from penstock.errors import ConfigError

Text = dict[str, str]


def _key(name: str) -> str:
    return name.replace("_", "-")


class Wrong(ValueError):
    """What a reader further down says of a value, for the error that names its place in the file."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(error.message)
        self.message, self.hint, self.facts = error.message, error.hint, error.facts


@contextmanager
def told_in_place() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Wrong(error) from error


class Strict(BaseModel):
    """Unknown keys are errors; hyphens and underscores are the same."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_key, populate_by_name=True)
