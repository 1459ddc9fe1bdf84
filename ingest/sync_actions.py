"""The commands of a kind of source, TYPE-sync-table and TYPE-sync-database, whose flags describe a whole pipeline.

They have the names and the flags of Paimon's actions. A package adds its own by an entry point of the group
`penstock.sync_actions`, whose name is the type of the source. They are registered apart from connectors because the
command line lists them at each `--help`, and a connector imports the model of its section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.errors import ConfigError
from penstock.extensions import Extensions

# Texts: repeated, each as it is; list: repeated, or separated by commas; pairs: a repeated k=v.
FlagKind = Literal["text", "texts", "list", "bool", "pairs"]
FlagValues: TypeAlias = Mapping[str, Sequence[str]]  # flag name with hyphens -> its values, in the order of the flags


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    help: str
    kind: FlagKind = "text"
    metavar: str | None = None
    required: bool = False
    has_effect: bool = True

    @property
    def is_repeated(self) -> bool:
        return self.kind not in {"text", "bool"}


INCLUDE_KEYLESS = Flag(
    "include-keyless",
    "tables without a key: append, leave-out or fail (default: leave-out; messages that say nothing of keys: append)",
    metavar="POLICY",
)
# For sources that can read single tables again. The pipeline itself interprets them.
REREAD = (
    Flag(
        "resnapshot",
        "empty the tables and read them again, if the log of the source is lost or unreliable (default: false)",
        "bool",
    ),
    Flag(
        "reset",
        "empty these tables and read their source again, while the others continue; may be repeated",
        "list",
        "TABLE",
    ),
)


@dataclass(frozen=True, slots=True)
class TranslatedSource:
    """A source from another kind of description, under the keys of a pipeline file.

    `section` is the section `source`. `pipeline` and `sink` are keys of those sections that the description decides
    too. `without_effect` are keys that were accepted and change nothing.
    """

    section: dict[str, Any]
    pipeline: dict[str, Any] = field(default_factory=dict)
    sink: dict[str, Any] = field(default_factory=dict)
    without_effect: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncActions:
    """The two commands of a kind of source, and their flags beside the flags of every pipeline.

    `tables` and `database` name what the commands read, as in "write Kafka topics to one table". `database_flags` are
    flags of TYPE-sync-database alone. The examples are flags of the source, for both commands or one of them.
    """

    tables: str
    database: str
    flags: tuple[Flag, ...]
    translate: Callable[[FlagValues], TranslatedSource]
    database_flags: tuple[Flag, ...] = ()
    example: str
    table_example: str = ""
    database_example: str = ""


SYNC_ACTIONS: Extensions[SyncActions] = Extensions(
    "penstock.sync_actions",
    SyncActions,
    {
        "mysql": "penstock.ingest.mysql.actions:ACTIONS",
        "postgres": "penstock.ingest.postgres.actions:ACTIONS",
        "mongodb": "penstock.ingest.mongodb.actions:ACTIONS",
        "kafka": "penstock.ingest.kafka.actions:ACTIONS",
        "pulsar": "penstock.ingest.pulsar.actions:ACTIONS",
    },
)


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Split each text at its first `=` and trim both sides; the last value of a repeated key wins."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(
                f"{text!r} has no value",
                hint=f"write  {text.strip() or 'key'}=value",
                paimon_message=f"Invalid key-value string '{text}'. Please use format 'key=value'",
            )
        found[key.strip()] = value.strip()
    return found


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """Return all comma-separated parts, in order."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def renamed(flags: FlagValues, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the last values of the flags that were given, each under its key."""
    return {key: flags[flag][-1] for flag, key in names.items() if flags.get(flag)}
