"""The `source` section of a pipeline that captures MongoDB collections."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from penstock.ingest.database.action_options import startup_mode
from penstock.ingest.database.connector import DatabaseConfig, Expression, Host
from penstock.settings import Names, Strict

MODES = ("initial", "latest-offset", "timestamp", "snapshot")
_STEP = re.compile(r"\.([^.\[\]*?@()]+)|\['([^']+)'\]|\[\"([^\"]+)\"\]|\[(\d+)\]")


class MongoStartup(Strict):
    """Startup modes, named as in Flink CDC. The ending `-offset` is optional."""

    mode: Literal["initial", "latest-offset", "timestamp", "snapshot"] = "initial"
    timestamp_millis: int | None = Field(default=None, description="where the mode timestamp begins")

    @field_validator("mode", mode="before")
    @classmethod
    def _by_any_of_its_names(cls, given: object) -> object:
        return startup_mode(given, MODES, "MongoDB CDC")

    @model_validator(mode="after")
    def _has_its_time(self) -> MongoStartup:
        if (self.mode == "timestamp") != (self.timestamp_millis is not None):
            raise ValueError("scan.startup.timestamp-millis belongs to scan.startup.mode=timestamp")
        return self


def path_of(text: str) -> tuple[str, ...]:
    """Return the steps of a path such as `$.a.b[0]['c']`; ValueError for filters, wildcards and functions."""
    steps: list[str] = []
    position = 1
    if text.startswith("$"):
        while position < len(text):
            found = _STEP.match(text, position)
            if found is None:
                break
            steps.append(next(group for group in found.groups() if group is not None))
            position = found.end()
    if not text.startswith("$") or position < len(text) or not steps:
        raise ValueError(f"{text!r} is not a path of names and numbers, as in $.address.lines[0]")
    return tuple(steps)


def _paths(given: tuple[str, ...]) -> tuple[str, ...]:
    for path in given:
        path_of(path)
    return given


class MongoDocuments(Strict):
    """How documents become columns."""

    mode: Literal["dynamic", "specified"] = Field(
        default="dynamic", description="dynamic: a column for each name; specified: the columns in field.name"
    )
    field_name: Names = Field(default=(), alias="field.name", description="columns of the mode specified")
    parser_path: Annotated[Names, AfterValidator(_paths)] = Field(
        default=(), alias="parser.path", description="where their values are, as $.address.lines[0]"
    )

    @model_validator(mode="after")
    def _are_pairs(self) -> MongoDocuments:
        if self.mode == "dynamic" and (self.field_name or self.parser_path):
            raise ValueError("field.name and parser.path belong to schema.start.mode=specified")
        if self.mode == "specified" and (not self.field_name or len(self.field_name) != len(self.parser_path)):
            raise ValueError("schema.start.mode=specified needs field.name, and a parser.path for each name")
        return self

    @property
    def fields(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((name, path_of(path)) for name, path in zip(self.field_name, self.parser_path, strict=True))


class MongoConfig(DatabaseConfig):
    type: Literal["mongodb"]
    hosts: Host = Field(description="host:port of the members of a replica set, or of routers; separated by commas")
    scheme: Literal["mongodb", "mongodb+srv"] = "mongodb"
    username: str = ""
    password: str = Field(default="", repr=False)
    connection_options: str = Field(
        default="", alias="connection.options", description="as in a connection string: replicaSet=rs0&tls=true"
    )
    database: Expression = Field(default=".*", description="databases to capture; a regular expression")
    collection: Expression = Field(default=".*", description="collections to capture; a regular expression")
    startup: MongoStartup = MongoStartup()
    documents: MongoDocuments = MongoDocuments()
    default_id_generation: bool = Field(
        default=True,
        alias="default.id.generation",
        description='an ObjectId in _id is its 24 digits; false: {"$oid":"..."}',
    )
    full_document: Literal["lookup", "required"] = Field(
        default="lookup",
        description="lookup: the document as it is when a change is read; required: as it was, which needs "
        "changeStreamPreAndPostImages",
    )
    log_seconds: int = Field(
        default=3600, gt=0, description="seconds of the log in one batch at most, if there is a backlog"
    )
