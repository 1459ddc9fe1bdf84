"""The errors of a MySQL source; the hint of each says how to resolve it.

Errors of all databases are in ingest/database/findings.py.

SourceError
  BinlogDisabled, BinlogFormatError, RowImageError, PartialJsonError
  StatementBinlogError      a change was logged as a statement: continuing would lose it
  SchemaHistoryMismatch     the columns in the binlog differ from the tracked definition
  DdlNotUnderstood          a captured table was altered by a statement that cannot be parsed
  ServerIdClash             another reader uses this pipeline's server id (retryable)
  UnsupportedBinlogEvent
  ChecksumMismatch          a binlog event is damaged (retryable)
  LogGap                    the server omitted events of the binlog, or an event is damaged (retryable)
  PasswordExposed           the server requests the password in a form that others could read
  NoUsableKey               a table without a usable key cannot be read in chunks
PositionLost
  BinlogPurged, BinlogReset, GtidDiverged
DecodeError
  ValueOutOfRange           a number without a label in its ENUM or SET
"""

from __future__ import annotations

from penstock.errors import DecodeError, PositionLost, SourceError
from penstock.ingest.database.findings import DamagedData


class BinlogDisabled(SourceError):
    pass


class BinlogFormatError(SourceError):
    pass


class RowImageError(SourceError):
    pass


class PartialJsonError(SourceError):
    pass


class StatementBinlogError(SourceError):
    pass


class SchemaHistoryMismatch(SourceError):
    pass


class DdlNotUnderstood(SourceError):
    pass


class ServerIdClash(SourceError):
    pass


class UnsupportedBinlogEvent(SourceError):
    advice = (
        "the binlog is damaged or was written by a newer server: inspect the event with mysqlbinlog; upgrade penstock, "
        "or read the tables again (--resnapshot)"
    )


class ChecksumMismatch(DamagedData):
    pass


class LogGap(DamagedData):
    pass


class PasswordExposed(SourceError):
    pass


class NoUsableKey(SourceError):
    pass


class BinlogPurged(PositionLost):
    pass


class BinlogReset(PositionLost):
    pass


class GtidDiverged(PositionLost):
    pass


class ValueOutOfRange(DecodeError):
    pass
