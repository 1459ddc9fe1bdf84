"""The text of a query for Spark's parser: Flink's hints as Spark's options, and numbers in place of a table's options.

The options of a stream's tables say where it starts, and Spark, which analyzes the query once, must not read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.pipelines.spark_source.spark_options import STREAM_TABLE
from penstock.table.sql.grammar.lookup_clauses import lookup_clauses, lookup_hints
from penstock.table.sql.grammar.mentions import Mention, common_names, hinted_options, mentions
from penstock.table.sql.grammar.tokens import SqlToken, tokens_of
from penstock.table.values.sql_text import backquoted

_LOOKUPS = "leave --engine out: lookup joins run on the engine duckdb; or use Spark in batch mode"


def with_options(text: str) -> str:
    """Return a statement with `/*+ OPTIONS('key' = 'value') */`, which Spark does not know, as Spark's WITH."""
    tokens = tokens_of(text)
    return "".join(
        _options_text(hinted_options(token.text)) or token.text if token.kind == "hint" else token.text
        for token in tokens
    )


def _options_text(options: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{backquoted(key)} = {_literal(value)}" for key, value in options.items())
    return f"WITH ({pairs})" if pairs else ""


def _literal(text: str) -> str:
    """Return a text as a literal of Spark, whose parser takes a backslash as the begin of an escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(slots=True)
class StreamedText:
    """The text of a streaming query. `options` are those of its tables, by the number that the text has for them."""

    text: str = ""
    options: list[Mapping[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, views: Sequence[str]) -> StreamedText:
        """Read a statement. `views` are names of temporary views, which are no tables."""
        tokens = tokens_of(text)
        streamed, done = cls(), 0
        others = common_names(tokens) | {name.lower() for name in views}
        for mention in mentions(tokens):
            is_view = len(mention.names) == 1 and mention.names[0].lower() in others
            if is_view or mention.is_call or _is_target(tokens, mention):
                continue
            streamed.text += "".join(token.text for token in tokens[done : mention.start])
            name = ".".join(map(backquoted, mention.names))
            streamed.text += f"{name} WITH (`{STREAM_TABLE.key}` = '{len(streamed.options)}')"
            streamed.options.append(mention.options)
            done = mention.end
        streamed.text += "".join(token.text for token in tokens[done:])
        return streamed


def _is_target(tokens: Sequence[SqlToken], mention: Mention) -> bool:
    """Return whether INSERT writes to the table with this name."""
    words = [token.text.lower() for token in tokens[: mention.start] if token.kind != "blank"]
    return words[-2:] in (["into", "table"], ["overwrite", "table"])


def refuse_lookups(tokens: Sequence[SqlToken]) -> None:
    """Raise ConfigError if a statement has a lookup join, which Spark's parser does not know."""
    if lookup_clauses(tokens) or any(True for _ in lookup_hints(tokens)):
        raise ConfigError("a lookup join is not possible in a stream on Spark", hint=_LOOKUPS)
