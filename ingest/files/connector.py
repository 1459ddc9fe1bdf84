"""The connector of folders of JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from penstock.ingest.connector import (
    BYTES,
    Capabilities,
    Connector,
    KeylessRule,
    SourceCheck,
    SourceConfig,
    SourceRequest,
)

if TYPE_CHECKING:
    from penstock.ingest.decoded_source import DecodedSource


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
    capabilities = Capabilities(resumes_from_tables=False, lag_unit=BYTES)

    def open(self, config: FilesConfig, request: SourceRequest) -> DecodedSource:
        from penstock.formats import format_named
        from penstock.ingest.decoded_source import DecodedSource
        from penstock.ingest.files.source import FilesSettings, FilesSource

        settings = FilesSettings(config.path, request.state, config.pattern, config.order)
        return DecodedSource(FilesSource(settings), format_named(config.value_format).name)

    def check(self, config: FilesConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        names = self.open(config, request).available()["names"]
        return SourceCheck(f"{config.path}: {len(names)} files")

    def keyless(self, config: FilesConfig) -> KeylessRule:
        return "as-stated"

    def message_format(self, config: FilesConfig) -> str:
        from penstock.formats import format_named

        return format_named(config.value_format).name


CONNECTOR = FilesConnector()
