"""The text of a streaming query: names of views in place of its tables, and the places where its parts come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.errors import ConfigError
from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import on_branch, parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.lookup.matches import LookupRetry
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.read.changes import writes_changelog
from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.grammar.lookup_clauses import LookupClause, clause_of, lookup_clauses, lookup_hints, without
from penstock.table.sql.grammar.mentions import Mention, has_alias, mentions
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.grammar.tokens import SqlToken, duck_text, tokens_of
from penstock.table.sql.queries.context import OpenCatalog
from penstock.table.sql.streams.query_tree import Node, QueryTrees, offset_of
from penstock.table.sql.streams.stream_options import check_stream_options
from penstock.table.system.streamed import NotStreamed, streamed_system
from penstock.table.values.sql_text import quoted

ROW = "_penstock_row"  # twice the number of a changed row in its batch; for an old row or a delete, one more
ONCE = "run the query once: SET 'execution.runtime-mode' = 'batch'"
BATCH = f"or {ONCE}"


@dataclass(frozen=True)
class StreamSource:
    """A table that a streaming query names. With `lookup` it is the dimension of a lookup join."""

    table: Table
    name: str
    system: str | None
    options: Mapping[str, str]
    lookup: LookupClause | None = None
    retry: LookupRetry | None = None

    @classmethod
    def of(
        cls, catalog: Catalog, place: tuple[str, str], options: Mapping[str, str], lookup: LookupClause | None = None
    ) -> StreamSource:
        """Open the table that is named."""
        named, options = on_branch(place[1], options)
        base, branch, system = parse_name(named)
        table = catalog.table(f"{place[0]}.{base}")
        name = f"{place[0]}.{base if branch is None else f'{base}$branch_{branch}'}"
        if system is not None and lookup is None:
            system = streamed_system(system, name, has_keys=bool(table.primary_keys))
        return cls(table if branch is None else table.branch(branch), name, system, options, lookup)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        names = tuple(self.table.definition.names)
        return names if self.system is None else (ROWKIND, *names)

    @property
    def has_keys(self) -> bool:
        """Return whether the rows are changes of rows with a key, and not only new rows."""
        return bool(self.table.primary_keys) and self.system is None

    @property
    def changes_rows(self) -> bool:
        """Return whether rows may be updated or deleted. The changelog of first-row is new rows only."""
        return self.has_keys and not merge_engine(self.table.definition.typed).oldest_wins

    @property
    def has_old_rows(self) -> bool:
        """Return whether rows are only added, or updates come with the old row."""
        return not self.has_keys or writes_changelog(Layout.of(self.table.definition))

    @cached_property
    def computed(self) -> frozenset[str]:
        """Return the columns, in lower case, that Flink computes as PROCTIME()."""
        options = self.table.definition.options
        named = {key.removesuffix(".name"): value for key, value in options.items() if key.endswith(".name")}
        texts = {place: options.get(f"{place}.expr", "").lower().replace(" ", "") for place in named}
        return frozenset(
            name.lower() for place, name in named.items() if texts[place] in {"proctime()", "`proctime`()"}
        )


@dataclass(slots=True)
class StreamText:
    """The text of a query for DuckDB's parser. `sources` are its tables by the name that the text has for them."""

    opened: OpenCatalog
    trees: QueryTrees
    part: ScriptPart
    text: str = ""
    # (offset in `text`, offset in the statement) at the beginning of each part.
    origins: list[tuple[int, int]] = field(default_factory=list)
    sources: dict[str, StreamSource] = field(default_factory=dict)
    hinted: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, opened: OpenCatalog, trees: QueryTrees, part: ScriptPart, query: str) -> StreamText:
        """Read the tables of a query."""
        written = tokens_of(query.strip())
        made = cls(opened, trees, part)
        base = max(part.text.rfind(query.strip()), 0)
        clauses = lookup_clauses(written)
        tokens = without(written, clauses)
        looked_up: list[tuple[Mention, str]] = []
        done = 0
        for mention in mentions(tokens):
            if opened.session.names_view(mention):
                at = place_in(part, base + _length(tokens[: mention.start]))
                why = f"{mention.names[0]} is a view, and not a table of the warehouse"
                raise refused(at, why, f"write its query in brackets, {BATCH}")
            place = opened.session.place(mention.names)
            if place is None:
                continue
            made._copy(tokens, done, mention.start, base)
            view = f"_penstock_stream_{len(made.sources)}"
            clause = clause_of(clauses, tokens, mention)
            # Options of the session begin streams; a lookup is not a read with a start.
            options = {**opened.session.read_options(place), **mention.options} if clause is None else mention.options
            try:
                if clause is None:
                    check_stream_options(options)
                made.sources[view] = StreamSource.of(opened.catalog, place, options, clause)
            except NotStreamed as error:
                at = place_in(part, base + _length(tokens[: mention.start]))
                raise refused(at, error.message, error.hint or "") from error
            looked_up += [(mention, view)] if clause is not None else []
            alias = "" if has_alias(tokens, mention.end) else f" AS {quoted(place[1])}"
            made._add(f"{view}{alias}", base + _length(tokens[: mention.start]))
            done = mention.end
        made._copy(tokens, done, len(tokens), base)
        made._check_clauses(clauses, tokens, base)
        made._read_hints(tokens, looked_up, base)
        return made

    def _check_clauses(self, clauses: Sequence[LookupClause], tokens: Sequence[SqlToken], base: int) -> None:
        used = {source.lookup for source in self.sources.values()}
        for clause in clauses:
            if clause not in used:
                place = place_in(self.part, base + _length(tokens[: clause.start]))
                name = _name_at_end(tokens[: clause.start])
                after = f"after {name}, which is not" if name else "not after"
                why = f"FOR SYSTEM_TIME AS OF is {after} a table of the warehouse"
                raise refused(place, why, "JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.k = d.k")

    def _read_hints(self, tokens: Sequence[SqlToken], looked_up: Sequence[tuple[Mention, str]], base: int) -> None:
        """Give the hints LOOKUP of the query to the dimensions that they name."""
        for hint in lookup_hints(tokens):
            place = place_in(self.part, base + _length(tokens[: hint.at]))
            names = {mention.start: _names(tokens, mention, self.sources[view]) for mention, view in looked_up}
            try:
                target, retry = hint.target(tokens, names), hint.retry
            except ConfigError as error:
                raise refused(place, error.message, error.hint or "") from error
            view = next(view for mention, view in looked_up if mention.start == target)
            if view in self.hinted:
                raise refused(place, f"two hints LOOKUP name {hint.table!r}", "write one")
            self.hinted.add(view)
            self.sources[view] = replace(self.sources[view], retry=retry)

    def _copy(self, tokens: Sequence[SqlToken], begin: int, end: int, base: int) -> None:
        self._add(duck_text(tokens[begin:end]), base + _length(tokens[:begin]))

    def _add(self, text: str, origin: int) -> None:
        self.origins.append((len(self.text), origin))
        self.text += text

    def place(self, offset: int) -> TextPlace:
        """Return the place in the script of an offset in the text."""
        begin, origin = max(origin for origin in self.origins if origin[0] <= min(offset, len(self.text)))
        return place_in(self.part, origin + min(offset, len(self.text)) - begin)

    def error(self, node: Node, why: str, hint: str) -> ConfigError:
        """Return the error at a node of the tree."""
        return refused(self.place(offset_of(node)), why, hint)


def _names(tokens: Sequence[SqlToken], mention: Mention, source: StreamSource) -> set[str]:
    """Return the names, in lower case, by which a hint may name a table."""
    name = source.name.lower()
    names = {name, name.partition(".")[2]}
    if not has_alias(tokens, mention.end):
        return names
    words = [token for token in tokens[mention.end :] if token.kind != "blank"]
    alias = words[1].name if words[0].text.lower() == "as" and len(words) > 1 else words[0].name
    return {*names, str(alias).lower()}


def refused(place: TextPlace, why: str, hint: str) -> ConfigError:
    """Return the error for a part of a streaming query."""
    return ConfigError(f"the query cannot be run as a stream: {why}", line=place.line, column=place.column, hint=hint)


def place_in(part: ScriptPart, offset: int) -> TextPlace:
    """Return the place in the script of an offset in a statement."""
    before = part.text[:offset]
    breaks = before.count("\n")
    column = offset - before.rfind("\n") if breaks else part.place.column + offset
    return TextPlace(part.place.offset + offset, part.place.line + breaks, column)


def _name_at_end(tokens: Sequence[SqlToken]) -> str:
    """Return the name that is written last; empty without one."""
    words = [token for token in tokens if token.kind != "blank"]
    parts: list[str] = []
    while words and (words[-1].text == "." if parts and parts[-1] != "." else words[-1].name is not None):
        parts.append(words.pop().text)
    return "".join(reversed(parts))


def _length(tokens: Sequence[SqlToken]) -> int:
    return sum(len(token.text) for token in tokens)
