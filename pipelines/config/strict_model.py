"""The base class of all sections of a pipeline file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict

from penstock.errors import ConfigError
from penstock.references import masked

Text = dict[str, str]


def _key(name: str) -> str:
    return name.replace("_", "-")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return masked(name.replace("_", "."), value)
    if isinstance(value, dict):
        return {key: _shown(str(key), one) for key, one in value.items()}
    return value


class Wrong(ValueError):
    """A ConfigError of another parser, as the ValueError that pydantic needs to report it with its place in the
    file.
    """

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
    """Base model: unknown keys are errors; hyphens and underscores are equivalent."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_key, populate_by_name=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what logs may show: secrets are masked, also secrets within URLs."""
        for name, value in super().__repr_args__():
            yield name, _shown(name or "", value)
