"""What a MySQL source can refuse, each with the way out in its hint.

SourceError
  SourceNotReady            several of the settings below are wrong at once
  BinlogDisabled, BinlogFormatError, RowImageError, PartialJsonError, MissingGrant
  StatementBinlogError      a change was logged as its statement: going on would lose it
  SchemaHistoryMismatch     the log's columns are not the tracked definition's
  DdlNotUnderstood          a captured table was altered by a text that cannot be read
  ServerIdClash             another reader has our identity (retryable)
  ConnectionLost            the network or the server went away (retryable)
  UnsupportedBinlogEvent, ChecksumMismatch
  LogGap                    the server left events of the log out
  PasswordExposed           the server wants the password in a way that others could read
  NoUsableKey               a table without key cannot be read in chunks
PositionLost
  BinlogPurged, BinlogReset, GtidDiverged
DecodeError
  ValueOutOfRange           a number that its ENUM or SET has no label for
"""

from __future__ import annotations

from penstock.errors import DecodeError, PositionLost, SourceError


class SourceNotReady(SourceError):
    pass


class BinlogDisabled(SourceError):
    pass


class BinlogFormatError(SourceError):
    pass


class RowImageError(SourceError):
    pass


class PartialJsonError(SourceError):
    pass


class MissingGrant(SourceError):
    pass


class StatementBinlogError(SourceError):
    pass


class SchemaHistoryMismatch(SourceError):
    pass


class DdlNotUnderstood(SourceError):
    pass


class ServerIdClash(SourceError):
    pass


class ConnectionLost(SourceError):
    pass


class UnsupportedBinlogEvent(SourceError):
    pass


class ChecksumMismatch(SourceError):
    pass


class LogGap(SourceError):
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
