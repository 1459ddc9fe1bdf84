"""The section `source`: validated by the model of the connector that its `type` names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from penstock.errors import ConfigError
from penstock.ingest.connector import SourceConfig
from penstock.ingest.connectors import CONNECTORS
from penstock.settings import Wrong

UNKNOWN_TYPE = "unknown_source_type"  # the pydantic error for a section without a type, or of an unknown one


class _RegisteredSource:
    """Pydantic's view of the section: one of the registered connectors' models, by its type.

    Connectors are imported when a section names them, so a file of one source does not import the others.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_validated)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        models = {
            name: connector.config.__pydantic_core_schema__ for name, connector in CONNECTORS.importable().items()
        }
        return handler(core_schema.tagged_union_schema(models, discriminator="type"))


def _validated(given: Any) -> SourceConfig:
    if isinstance(given, SourceConfig):
        return given
    if not isinstance(given, Mapping):
        # The same error as for any other section; `load` has its text.
        raise PydanticKnownError("dict_type")
    kind = given.get("type")
    try:
        connector = CONNECTORS.find(str(kind)) if kind is not None else None
    except ConfigError as error:
        raise Wrong(error) from error
    if connector is None:
        raise PydanticCustomError(
            UNKNOWN_TYPE, "the type of the source is missing or unknown", {"given": kind, "keys": list(given)}
        )
    config: SourceConfig = connector.config.model_validate(given)
    return config


Source = Annotated[SourceConfig, _RegisteredSource]
