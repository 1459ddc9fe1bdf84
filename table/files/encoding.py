"""The file format and the compression codec that a table's options choose."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.errors import FormatUnknown
from penstock.table.options.changelogs import CHANGELOG_FILE_COMPRESSION, CHANGELOG_FILE_FORMAT
from penstock.table.options.files import (
    AVRO_CODEC,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_COMPRESSION_ZSTD_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FILE_SUFFIX_INCLUDE_COMPRESSION,
    ORC_COMPRESS,
    PARQUET_COMPRESSION,
    PARQUET_DICTIONARY_PAGE_SIZE,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
)
from penstock.table.options.kinds import choose
from penstock.table.options.table_options import TableOptions

FORMATS = ("parquet", "orc", "avro")
_CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "orc": ("zstd", "snappy", "zlib", "lz4", "none"),
    "avro": ("zstd", "snappy", "deflate", "bzip2", "xz", "none"),
}
# The formats and their options have different names for the same codec.
_SAME_CODEC = {"uncompressed": "none", "null": "none", "": "none", "zstandard": "zstd", "lz4_raw": "lz4"}
_CODEC_OPTIONS = {"parquet": PARQUET_COMPRESSION, "orc": ORC_COMPRESS, "avro": AVRO_CODEC}


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file is written: format, codec, and the settings of both.

    `dictionary` None decides for each column by its values, and `packs_floats` compresses floats whatever they
    are. Sizes are in bytes; None is the library's default.
    """

    format: str = "parquet"
    codec: str = "zstd"
    zstd_level: int = 1
    dictionary: bool | None = None
    page_bytes: int | None = None
    dictionary_bytes: int | None = None
    codec_in_name: bool = False
    packs_floats: bool = False

    @property
    def extension(self) -> str:
        """Return the file name extension, with the codec if the options ask for it."""
        return f".{self.codec}.{self.format}" if self.codec_in_name and self.codec != "none" else f".{self.format}"


def encoding_of(options: TableOptions, level: int = 0, *, changelog: bool = False) -> Encoding:
    """Return how a data file of a level, or a changelog file, is written."""
    text = options[FILE_FORMAT_PER_LEVEL].get(level) or options.text(FILE_FORMAT)
    if changelog:
        text = options.text(CHANGELOG_FILE_FORMAT) or text
    file_format = _choice(text or "", FORMATS, "file format")
    codec = options[FILE_COMPRESSION_PER_LEVEL].get(level) or options.given(FILE_COMPRESSION)
    if changelog:
        codec = options[CHANGELOG_FILE_COMPRESSION] or codec
    # file.compression wins over the option of the format if it is set, but its default does not.
    codec = codec or options[_CODEC_OPTIONS[file_format]] or options[FILE_COMPRESSION]
    codec = _SAME_CODEC.get(codec.strip().lower(), codec)
    return Encoding(
        format=file_format,
        codec=_choice(codec, _CODECS[file_format], f"codec of {file_format}"),
        zstd_level=options[FILE_COMPRESSION_ZSTD_LEVEL],
        dictionary=options.given(PARQUET_ENABLE_DICTIONARY),
        page_bytes=options[PARQUET_PAGE_SIZE],
        dictionary_bytes=options[PARQUET_DICTIONARY_PAGE_SIZE],
        codec_in_name=options[FILE_SUFFIX_INCLUDE_COMPRESSION],
    )


def _choice(text: str, choices: tuple[str, ...], kind: str) -> str:
    try:
        return choose(text, choices)
    except ConfigError as reason:
        raise FormatUnknown(f"{text!r} is not a {kind} that Penstock can write", hint=reason.hint) from reason
