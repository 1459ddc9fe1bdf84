"""Character sets: collation number to character set, and bytes to text exactly as the server converts to utf8mb4."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BINARY_COLLATION = 63

# Each character set: bytes per character, Python's codec (None: a table below), its collation numbers up to 1023.
_SETS: dict[str, tuple[int, str | None, str]] = {
    "utf8mb4": (4, "utf-8", "45-46 224-247 255-323 608-610"),
    "utf8mb3": (3, "utf-8", "33 76 83 192-215 223 576-578"),
    "ascii": (1, "ascii", "11 65"),
    "latin1": (1, "latin-1", "5 8 15 31 47-49 94"),
    "binary": (1, "latin-1", "63"),
    "gbk": (2, "gbk", "28 87"),
    "gb2312": (2, "gb2312", "24 86"),
    "gb18030": (4, "gb18030", "248-250"),
    "big5": (2, "big5", "1 84"),
    "ucs2": (2, "utf-16-be", "35 90 128-151 159 640-642"),
    "utf16": (4, "utf-16-be", "54-55 101-124 672-674"),
    "utf16le": (4, "utf-16-le", "56 62"),
    "utf32": (4, "utf-32-be", "60-61 160-183 736-738"),
    "latin2": (1, "iso8859-2", "2 9 21 27 77"),
    "latin5": (1, "iso8859-9", "30 78"),
    "latin7": (1, "iso8859-13", "20 41-42 79"),
    "greek": (1, "iso8859-7", "25 70"),
    "hebrew": (1, "iso8859-8", "16 71"),
    "cp1250": (1, "cp1250", "26 34 44 66 99"),
    "cp1251": (1, "cp1251", "14 23 50-52"),
    "cp1256": (1, "cp1256", "57 67"),
    "cp1257": (1, "cp1257", "29 58-59"),
    "cp850": (1, "cp850", "4 80"),
    "cp852": (1, "cp852", "40 81"),
    "cp866": (1, "cp866", "36 68"),
    "koi8r": (1, "koi8-r", "7 74"),
    "koi8u": (1, "koi8-u", "22 75"),
    "macce": (1, "mac-latin2", "38 43"),
    "macroman": (1, "mac-roman", "39 53"),
    "hp8": (1, "hp-roman8", "6 72"),
    "tis620": (1, "tis-620", "18 89"),
    "sjis": (2, "shift_jis", "13 88"),
    "cp932": (2, "cp932", "95-96"),
    "ujis": (3, "euc_jp", "12 91"),
    "eucjpms": (3, "euc_jp", "97-98"),
    "euckr": (2, "cp949", "19 85"),
    "dec8": (1, None, "3 69"),
    "swe7": (1, "ascii", "10 82"),
    "armscii8": (1, None, "32 64"),
    "keybcs2": (1, None, "37 73"),
    "geostd8": (1, None, "92-93"),
}
# MariaDB's UCA 14 collations have the numbers from 2048 on, 256 per character set.
_UCA1400 = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")

# Characters that the server decodes differently from Python's codec (found by querying the server for every code).
_DIFFERENT: dict[str, dict[str, str]] = {
    "hebrew": {"¯": "‾"},
    "koi8u": {"∙": "•"},
    "greek": {"‘": "ʽ", "’": "ʼ", "€": "?", "₯": "?", "ͺ": "?"},
    "cp1256": dict.fromkeys("ٹڈکڑںھہے", "?"),
    "cp866": {"№": "ⁿ", "¤": "²"},
    # The standard of 2005 exchanged these two.
    "gb18030": {"\ue7c7": "ḿ", "ḿ": "\ue7c7"},
    "sjis": {"＼": "\\"},
    "ujis": {"＼": "\\"},
    "eucjpms": {"〜": "～", "‖": "∥", "−": "－", "¢": "￠", "£": "￡", "¬": "￢", "¦": "￤"},
}
_UPPER_HALF: dict[str, str] = {
    "dec8": "".join(map(chr, range(0x80, 0xA1)))
    + "¡¢£?¥?§¤©ª«????°±²³?µ¶·?¹º»¼½?¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ?ÑÒÓÔÕÖŒØÙÚÛÜŸ?ßàáâãäåæçèéêëìíîï?ñòóôõöœøùúûüÿ??",
    "armscii8": "".join(map(chr, range(0x80, 0xA1)))
    + "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
    "keybcs2": "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0",
    "geostd8": "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"
    + "".join(map(chr, range(0xA0, 0xC0)))
    + "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ"
    + "?" * 23
    + "№??",
}
_SWE7 = dict(zip(map(ord, "@[\\]^`{|}~\x7f"), "ÉÄÖÅÜéäöåü?", strict=True))
# MySQL's latin1 is Windows code page 1252; its five undefined codes are the control characters of ISO 8859-1.
_HOLES = frozenset(b"\x81\x8d\x8f\x90\x9d")
_LATIN1 = {code: bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in _HOLES}
# In these sets U+FFFD is a valid character, or the server sends it too.
_KEEPS_MARK = frozenset({"utf8mb4", "utf8mb3", "ucs2", "utf16", "utf16le", "utf32", "gb18030", "tis620"})


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set of the server; `codec` is None if Python has no codec for it."""

    name: str
    bytes_per_character: int
    codec: str | None

    @property
    def is_utf8(self) -> bool:
        """Return whether the bytes are valid UTF-8 as they are."""
        return self.codec == "utf-8" or self.name == "ascii"

    def decode(self, raw: bytes) -> str:
        """Return the text that the server would send as utf8mb4: a code without a character becomes `?`."""
        if self.codec is None:
            upper = _UPPER_HALF[self.name]
            return "".join(chr(byte) if byte < 0x80 else upper[byte - 0x80] for byte in raw)
        if self.name == "eucjpms":
            # Python takes the tilde of JIS X 0212 for that of ASCII.
            raw = raw.replace(b"\x8f\xa2\xb7", b"\xa1\xc1")
        text = raw.decode(self.codec, _HANDLERS.get(self.name, "replace"))
        if self.name not in _KEEPS_MARK:
            text = text.replace("\ufffd", "?")
        different = _TRANSLATIONS.get(self.name)
        return text.translate(different) if different else text


# Codes that Python's codecs lack: user-defined characters, those of NEC and IBM, and seven of ETEN.
# Ten rows of 94 characters per lead byte, in the private use area of Unicode from U+E000 on.
_USERS = {
    lead + bytes([row, cell]): chr(0xE000 + 940 * len(lead) + 94 * (row - 0xF5) + cell - 0xA1)
    for lead in (b"", b"\x8f")
    for row in range(0xF5, 0xFF)
    for cell in range(0xA1, 0xFF)
}
_NEC = (
    "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ"
    ".㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡........㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪"
)
_IBM = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ",
    "ⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸淲瀨\ufa15\ufa16"
    "甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿賴赶\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑",
)
_LACKING: dict[str, dict[bytes, str]] = {
    "ujis": _USERS,
    "eucjpms": {
        **_USERS,
        **{bytes([0xAD, 0xA1 + cell]): text for cell, text in enumerate(_NEC) if text != "."},
        **{bytes([0x8F, 0xF3, 0xF3 + cell]): text for cell, text in enumerate(_IBM[0])},
        **{bytes([0x8F, 0xF4, 0xA1 + cell]): text for cell, text in enumerate(_IBM[1])},
    },
    "big5": {bytes([0xF9, 0xD6 + cell]): text for cell, text in enumerate("碁銹裏墻恒粧嫺")},
}


# The least second byte of a character, by sets whose characters may have two bytes.
_SECOND_BYTES = {
    **dict.fromkeys(("gbk", "big5", "sjis", "cp932", "euckr"), 0x40),
    **dict.fromkeys(("gb2312", "ujis", "eucjpms"), 0xA1),
}


def _completing(codes: dict[bytes, str], second: int) -> Callable[[UnicodeError], tuple[str, int]]:
    """Return a codec error handler that decodes these codes, and returns one U+FFFD for a whole code without character.

    Python's codecs would read the second byte of such a code as a character of its own.
    """

    def read(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        for width in (3, 2):
            code = error.object[error.start : error.start + width]
            if code in codes:
                return codes[code], error.start + len(code)
        width = 3 if second == 0xA1 and error.object[error.start] == 0x8F else 2
        code = error.object[error.start : error.start + width]
        is_whole = len(code) == width and min(code[1:]) >= second
        return "\ufffd", error.start + width if is_whole else error.end

    return read


def _of_four_bytes(error: UnicodeError) -> tuple[str, int]:
    """Return `?` for a code of GB 18030 of four bytes without a character, as the server does."""
    assert isinstance(error, UnicodeDecodeError)
    code = error.object[error.start : error.start + 4]
    is_whole = len(code) == 4 and all(0x81 <= byte <= 0xFE for byte in code[::2])
    if is_whole and all(0x30 <= byte <= 0x39 for byte in code[1::2]):
        return "?", error.start + 4
    return "\ufffd", error.end


_HANDLERS = {name: f"penstock.{name}" for name in (*_SECOND_BYTES, "gb18030")}
codecs.register_error(_HANDLERS["gb18030"], _of_four_bytes)
for _name, _second in _SECOND_BYTES.items():
    codecs.register_error(_HANDLERS[_name], _completing(_LACKING.get(_name, {}), _second))

_TRANSLATIONS: dict[str, dict[int, str]] = {
    "latin1": _LATIN1,
    "swe7": _SWE7,
    **{name: {ord(theirs): ours for theirs, ours in pairs.items()} for name, pairs in _DIFFERENT.items()},
}
CHARSETS = {name: Charset(name, width, codec) for name, (width, codec, _) in _SETS.items()}


def _numbers(ranges: str) -> list[int]:
    numbers: list[int] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


_BY_COLLATION = {number: name for name, (_, _, ranges) in _SETS.items() for number in _numbers(ranges)}


def charset_of_collation(number: int) -> Charset | None:
    """Return the character set of a collation's number; None if neither MySQL nor MariaDB has the collation."""
    if number >= 2048:
        place = (number - 2048) >> 8
        return CHARSETS[_UCA1400[place]] if place < len(_UCA1400) else None
    if number >= 1024:  # MariaDB's NO PAD variants
        number -= 1024
    name = _BY_COLLATION.get(number)
    return CHARSETS[name] if name else None


def charset_named(name: str) -> Charset | None:
    """Return a character set by its name as spelled in the catalog or in DDL."""
    name = name.lower()
    return CHARSETS.get("utf8mb3" if name == "utf8" else name)
