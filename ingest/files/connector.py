"""The connector of folders of JSON lines."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from penstock.errors import counted
from penstock.ingest.connector import BYTES, Capabilities, Connector, SourceConfig
from penstock.ingest.connector_answers import SourceCheck, SourceFinding
from penstock.ingest.connector_requests import KeylessRule, SourceRequest

if TYPE_CHECKING:
    from penstock.ingest.decoded_source import DecodedSource
    from penstock.ingest.files.source import FilesSettings, FilesSource
    from penstock.ingest.source_draft import DraftOptions, SourceDraft

_DRAFT = """
source:
  type: files
  path: {path}
  pattern: "*"                    # names of the files to read; each is read once
  value.format: {format}
"""


class FilesConfig(SourceConfig):
    type: Literal["files"]
    path: str
    pattern: str = "*"
    order: Literal["time", "name"] = "time"
    value_format: str = Field(alias="value.format")


class FilesConnector(Connector[FilesConfig]):
    """Folders in which new files appear."""

    name = "files"
    config = FilesConfig
    # Which files were read is known to the ledger in the checkpoint alone.
    capabilities = Capabilities(resumes_from_tables=False, keeps_state=True, passes_places=True, lag_unit=BYTES)
    url_schemes = frozenset({"", "file", "s3", "gs", "hdfs"})
    url_form = "a folder of messages"

    def open(self, config: FilesConfig, request: SourceRequest) -> DecodedSource:
        from penstock.formats import format_named
        from penstock.ingest.decoded_source import DecodedSource
        from penstock.ingest.files.source import FilesSource

        return DecodedSource(FilesSource(_settings(config, request)), format_named(config.value_format).name)

    def check(self, config: FilesConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        from penstock.ingest.files.source import FilesSource

        source = FilesSource(_settings(config, request))
        place = f"{config.path}: {counted(len(source.available()['names']), 'file')}"
        return SourceCheck(place, findings=() if source.available()["names"] else _other_names(config, source))

    def keyless(self, config: FilesConfig) -> KeylessRule:
        return "as-stated"

    def message_format(self, config: FilesConfig) -> str:
        from penstock.formats import format_named

        return format_named(config.value_format).name

    def draft(self, place: str, options: DraftOptions) -> SourceDraft:
        from penstock.ingest.source_draft import SourceDraft, recognised_format

        name, found = recognised_format(lambda: _first_messages(place), options, "The folder was not examined.")
        section = _DRAFT.format(path=place, format=name)
        return SourceDraft(section, found, place.rstrip("/").rpartition("/")[2] or self.name)


def _settings(config: FilesConfig, request: SourceRequest) -> FilesSettings:
    from penstock.ingest.files.source import FilesSettings

    return FilesSettings(config.path, request.state, config.pattern, config.order)


def _other_names(config: FilesConfig, source: FilesSource) -> list[SourceFinding]:
    """Return a warning if a folder has files, and none with a name that the pattern accepts."""
    others = source.other_names()
    if not others:
        return []
    some = ", ".join(others[:3])
    said = f"{counted(len(others), 'file')} in {config.path}, such as {some}, but none is named {config.pattern!r}"
    return [SourceFinding("warning", said, 'correct  source: {pattern: ...} ; "*" accepts all names')]


def _first_messages(folder: str) -> list[bytes]:
    from penstock.ingest.files.source import FilesSettings, FilesSource
    from penstock.ingest.source import Limit
    from penstock.ingest.source_draft import EXAMINED
    from penstock.storage.state_folder import StateFolder

    # The source records the files of a batch in its state, which must not be the state of a pipeline.
    with tempfile.TemporaryDirectory(prefix="penstock-") as state:
        source = FilesSource(FilesSettings(folder, StateFolder(state)))
        start = source.initial_offsets()
        end = source.latest_offsets(start, Limit(rows=EXAMINED))
        for range_ in source.plan(start, end, 1) if end != start else ():
            for fetched in source.read(range_):
                return [value for value in fetched.messages.values if value]
    return []


CONNECTOR = FilesConnector()
