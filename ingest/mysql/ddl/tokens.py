"""A tokenizer for SQL. It accepts any text: an unknown character becomes a token of one character."""

from __future__ import annotations

import re
from typing import NamedTuple

WORD, NAME, TEXT, BYTES, NUMBER, SIGN = "word", "name", "text", "bytes", "number", "sign"

# Two dashes begin a comment only before white space. A comment that begins with /*! or /*M! is executed: only its
# marks are skipped.
_PLAIN = r"""
    (?P<space>\s+)
  | (?P<comment>\#[^\n]*|--(?=[\s\x00-\x1f]|$)[^\n]*|/\*(?!M?!).*?(?:\*/|$))
  | (?P<open>/\*M?!\d*)
  | (?P<close>\*/)
  | (?P<name>`(?:[^`]|``)*`)
"""
# Names may begin with digits, so digits are a number only if no character of a name follows. Right after a name and a
# dot, as in shop.2024_orders, there is always a name.
_REST = r"""
  | (?P<after_dot>(?<=[\w$\u0080-\U0010ffff]\.)[\w$\u0080-\U0010ffff]+)
  | (?P<hex>[xXbB]'[0-9a-fA-F]*'|(?:0[xX][0-9a-fA-F]+|0b[01]+)(?![\w$\u0080-\U0010ffff]))
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w$\u0080-\U0010ffff])
      |(?<![\w$\u0080-\U0010ffff])\.\d+(?:[eE][+-]?\d+)?)
  | (?P<variable>@{1,2}[\w$.]*)
  | (?P<word>[\w$\u0080-\U0010ffff]+)
  | (?P<sign>.)
"""
# The closing quote is optional: a text that is cut off becomes one token, and not many.
_ESCAPED = r"""(?P<text>'(?:[^'\\]|\\.|'')*'?|{double}"(?:[^"\\]|\\.|"")*"?)"""
_UNESCAPED = r"""(?P<text>'(?:[^']|'')*'?|{double}"(?:[^"]|"")*"?)"""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


class DdlToken(NamedTuple):
    """A token. `text` is its meaning: a name or string without quotes, a word as written."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """The word in upper case; empty for anything quoted, so that a quoted keyword never counts as a keyword."""
        return self.text.upper() if self.kind in {WORD, SIGN} else ""

    @property
    def is_name(self) -> bool:
        return self.kind in {WORD, NAME}


def _pattern(*, ansi_quotes: bool, backslashes: bool, brackets: bool) -> re.Pattern[str]:
    # `(?!)` never matches: with ANSI_QUOTES a double quote begins a name.
    strings = (_ESCAPED if backslashes else _UNESCAPED).replace("{double}", "(?!)" if ansi_quotes else "")
    name = r'|(?P<ansi>"(?:[^"]|"")*")' if ansi_quotes else ""
    name += r"|(?P<bracket>\[(?:[^\]]|\]\])*\])" if brackets else ""
    return re.compile(_PLAIN + name + "|" + strings + _REST, re.VERBOSE | re.DOTALL)


_PATTERNS = {
    (ansi, back, both): _pattern(ansi_quotes=ansi, backslashes=back, brackets=both)
    for ansi in (False, True)
    for back in (False, True)
    for both in (False, True)
}


def tokens(sql: str, *, ansi_quotes: bool = False, backslashes: bool = True, brackets: bool = False) -> list[DdlToken]:
    """Return the tokens of a statement.

    Comments are dropped, the content of executed ones (`/*!50100 ... */`) is kept. With `brackets`, `[a]` is a name.
    """
    read: list[DdlToken] = []
    for match in _PATTERNS[ansi_quotes, backslashes, brackets].finditer(sql):
        kind, text = match.lastgroup or "", match[0]
        match kind:
            case "space" | "comment" | "open" | "close":
                continue
            case "name":
                read.append(DdlToken(NAME, text[1:-1].replace("``", "`")))
            case "ansi":
                read.append(DdlToken(NAME, text[1:-1].replace('""', '"')))
            case "bracket":
                read.append(DdlToken(NAME, text[1:-1].replace("]]", "]")))
            case "text":
                read.append(DdlToken(TEXT, _unquoted(text, backslashes=backslashes)))
            case "hex":
                read.append(DdlToken(BYTES, text))
            case "number":
                read.append(DdlToken(NUMBER, text))
            case "sign":
                read.append(DdlToken(SIGN, text))
            case _:
                read.append(DdlToken(WORD, text))
    return read


def first_word(sql: str) -> str:
    """Return the first word of a statement in upper case, after comments and brackets; empty without one."""
    for match in _PATTERNS[False, True, False].finditer(sql):
        if match.lastgroup not in {"space", "comment", "open", "close"} and match[0] != "(":
            return match[0].upper() if match.lastgroup == "word" else ""
    return ""


def _unquoted(text: str, *, backslashes: bool) -> str:
    quote = text[0]
    inside = text[1:-1] if len(text) > 1 and text.endswith(quote) else text[1:]
    inside = inside.replace(quote * 2, quote)
    if backslashes and "\\" in inside:
        # \% and \_ keep their backslash; any other escaped character stands for itself.
        inside = re.sub(
            r"\\(.)",
            lambda match: match[0] if match[1] in "%_" else _ESCAPES.get(match[1], match[1]),
            inside,
            flags=re.DOTALL,
        )
    return inside
