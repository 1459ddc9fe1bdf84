"""The bodies of QUERY and LOAD DATA events: a statement as text, and the settings of the session that ran it."""

from __future__ import annotations

from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.server.charsets import charset_of_collation

_HEADER = 13
# The number of the loaded file, the place of its name in the statement, and what is done with doubled keys.
_LOAD_FIELDS = 13
_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 0x4, 0x100000
_MSSQL = 0x400  # of MariaDB: names may be in brackets
_STRICT = 0x600000  # STRICT_TRANS_TABLES or STRICT_ALL_TABLES
# Bytes of the status variables of a QUERY event by their codes. 1 is the SQL mode, 4 the client's character set.
_FIXED_VARS = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1}


def parse_load(body: bytes) -> Query:
    """Parse the body of a LOAD DATA event: the body of a QUERY event, with more fields in its header."""
    return parse_query(body[:_HEADER] + body[_HEADER + _LOAD_FIELDS :])


def parse_query(body: bytes) -> Query:
    """Parse the body of a QUERY event; ValueError if it is cut short."""
    database_length = body[8]
    variables_length = int.from_bytes(body[11:13], "little")
    at = _HEADER + variables_length
    sql_mode, collation = _session(body[_HEADER:at])
    database = body[at : at + database_length].decode("utf-8", "replace")
    if len(body) < at + database_length + 1:
        raise ValueError("the statement ends within its header")
    text = body[at + database_length + 1 :]
    charset = charset_of_collation(collation) if collation else None
    # The text is in the client's character set; the usual ones are UTF-8.
    sql = charset.decode(text) if charset and not charset.is_utf8 else text.decode("utf-8", "replace")
    ansi_quotes, backslashes = bool(sql_mode & _ANSI_QUOTES), not sql_mode & _NO_BACKSLASH_ESCAPES
    return Query(sql, database, ansi_quotes, backslashes, bool(sql_mode & _STRICT), bool(sql_mode & _MSSQL))


def _session(raw: bytes) -> tuple[int, int | None]:
    """Return SQL mode and client collation from the status variables; stop at a variable of unknown length."""
    sql_mode, collation, at = 0, None, 0
    while at < len(raw):
        code = raw[at]
        at += 1
        if code == 1:
            sql_mode = int.from_bytes(raw[at : at + 8], "little")
        elif code == 4:
            collation = int.from_bytes(raw[at : at + 2], "little")
        length = _variable_length(code, raw, at)
        if length is None:
            break
        at += length
    return sql_mode, collation


def _variable_length(code: int, raw: bytes, at: int) -> int | None:
    if code in _FIXED_VARS:
        return _FIXED_VARS[code]
    rest = raw[at:]
    match code:
        case 2:  # catalog, followed by a zero
            return 1 + rest[0] + 1
        case 5 | 6:  # time zone, catalog
            return 1 + rest[0]
        case 11:  # user and host
            return 1 + rest[0] + 1 + rest[1 + rest[0]]
        case 12:  # names of databases
            return None
    return None
