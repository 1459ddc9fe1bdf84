"""The file format and the compression codec that a table's options choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.files.errors import FormatUnknown
from penstock.table.schema.option_values import choose
from penstock.table.schema.options import Options

FORMATS = ("parquet", "orc", "avro")
_CODECS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "orc": ("zstd", "snappy", "zlib", "lz4", "none"),
    "avro": ("zstd", "snappy", "deflate", "bzip2", "xz", "none"),
}
_SAME_CODEC = {"uncompressed": "none", "null": "none", "": "none", "zstandard": "zstd", "lz4_raw": "lz4"}
_CODEC_OPTIONS = {"parquet": "parquet.compression", "orc": "orc.compress", "avro": "avro.codec"}


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file is written: format, codec, and the settings of both.

    `dictionary` None decides for each column by its values. Sizes are in bytes; None is the library's default.
    """

    format: str = "parquet"
    codec: str = "zstd"
    zstd_level: int = 1
    dictionary: bool | None = None
    page_bytes: int | None = None
    dictionary_bytes: int | None = None
    codec_in_name: bool = False

    @property
    def extension(self) -> str:
        """Return the file name extension, with the codec if the options ask for it."""
        return f".{self.codec}.{self.format}" if self.codec_in_name and self.codec != "none" else f".{self.format}"


def encoding_of(options: Mapping[str, str], level: int = 0, *, changelog: bool = False) -> Encoding:
    """Return how a data file of a level, or a changelog file, is written."""
    known = Options(options)
    text = per_level(known, "file.format.per.level", level) or known.text("file.format", "parquet")
    if changelog:
        text = known.text("changelog-file.format", text)
    file_format = _choice(text, FORMATS, "file format")
    codec = per_level(known, "file.compression.per.level", level) or known.text("file.compression", None)
    if changelog:
        codec = known.text("changelog-file.compression", codec)
    codec = codec or known.text(_CODEC_OPTIONS[file_format], "zstd")
    codec = _SAME_CODEC.get(codec.strip().lower(), codec)
    return Encoding(
        format=file_format,
        codec=_choice(codec, _CODECS[file_format], f"codec of {file_format}"),
        zstd_level=known.integer("file.compression.zstd-level", 1),
        dictionary=known.boolean("parquet.enable.dictionary", default=True)
        if "parquet.enable.dictionary" in options
        else None,
        page_bytes=known.size("parquet.page.size", None),
        dictionary_bytes=known.size("parquet.dictionary.page.size", None),
        codec_in_name=known.boolean("file.suffix.include.compression", default=False),
    )


def per_level(options: Options, key: str, level: int) -> str | None:
    """Return the entry of a level from an option such as `0:avro,5:parquet`, or None."""
    pairs = (pair.partition(":") for pair in options.names(key))
    return next((text.strip() for number, _, text in pairs if number.strip() == str(level)), None)


def _choice(text: str, choices: tuple[str, ...], what: str) -> str:
    try:
        return choose(text, choices)
    except ConfigError as reason:
        raise FormatUnknown(f"{text!r} is no {what} that Penstock writes", hint=reason.hint) from reason
