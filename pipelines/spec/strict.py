"""What every section of a pipeline file shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Text = dict[str, str]


def _key(name: str) -> str:
    return name.replace("_", "-")


class Strict(BaseModel):
    """Unknown keys are errors; hyphens and underscores are the same."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_key, populate_by_name=True)
