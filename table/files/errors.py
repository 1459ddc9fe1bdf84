"""The errors of reading and writing data files.

ConfigError
  FormatUnknown         a file format or codec that Penstock does not write
DecodeError
  TimestampOutOfRange   a TIMESTAMP(7..9) beyond the years that nanoseconds can represent
SchemaConflict
  NullRefused           a null in a NOT NULL column
"""

from __future__ import annotations

from penstock.errors import ConfigError, DecodeError, SchemaConflict


class FormatUnknown(ConfigError):
    pass


class TimestampOutOfRange(DecodeError):
    pass


class NullRefused(SchemaConflict):
    pass
