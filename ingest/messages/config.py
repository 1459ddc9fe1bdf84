"""The keys that the `source` sections of message brokers have in common."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from penstock.ingest.connector import SourceConfig
from penstock.settings import Text


def topic_names(given: object) -> object:
    """Split one string into several names, separated by commas or semicolons."""
    return tuple(part.strip() for part in re.split("[;,]", given) if part.strip()) if isinstance(given, str) else given


class MessagesConfig(SourceConfig):
    """A section that names topics, in one of two ways, and the format of their messages."""

    topic: Annotated[tuple[str, ...], BeforeValidator(topic_names)] = ()
    topic_pattern: str | None = None
    value_format: str = Field(alias="value.format")
    schema_registry: Text = Field(default_factory=dict)

    def check_topics(self, conf: str) -> None:
        """Raise ValueError unless topics are named in one way. `conf` is the name of the flag in Paimon's error."""
        if bool(self.topic) == bool(self.topic_pattern):
            # The text of this error comes from Paimon's action, because users search for it.
            raise ValueError(f"{conf} must and can only set one of the following options: topic,topic-pattern.")
        try:
            re.compile(self.topic_pattern or "")
        except re.error as reason:
            raise ValueError(f"topic-pattern {self.topic_pattern!r} is not a regular expression: {reason}") from reason
