"""The streams of a script, which run with their statement set or at the end of the script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Event
from typing import TypeGuard

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.sql.grammar.row_statements import Insert
from penstock.table.sql.grammar.scripts import ScriptPart, first_word
from penstock.table.sql.grammar.statements import SqlQuery, Statement
from penstock.table.sql.grammar.table_statements import CreateTable
from penstock.table.sql.queries.context import SqlContext, done, one_column
from penstock.table.sql.streams.stream_inserts import stream_inserts
from penstock.table.sql.streams.stream_jobs import StreamJobs, stream_selects
from penstock.table.sql.streams.stream_queries import reads_tables
from penstock.table.sql.streams.stream_text import refused

MODE = "execution.runtime-mode"
_QUERIES = {"select", "with", "from", "("}


class Streams:
    """The streams of a session."""

    def __init__(self, context: SqlContext, until_caught_up: bool, stop: Event) -> None:
        self._context, self._until_caught_up = context, until_caught_up
        self._jobs = StreamJobs(stop)
        self._set: ScriptPart | None = None

    @property
    def are_running(self) -> bool:
        """Return whether jobs are running."""
        return self._jobs.are_running

    def last_of(self, results: Iterable[pa.Table]) -> pa.Table | None:
        """Return the last result of a script; of a SELECT over a stream, the rows of all its batches."""
        shown: dict[ScriptPart | None, list[pa.Table]] = {}
        for table in results:
            part = self._jobs.shown
            if part is None:
                shown.clear()
            shown.setdefault(part, []).append(table)
        if not shown:
            return None
        # Streams of several statements run together.
        tables = shown[max(shown, key=lambda part: (0, 0) if part is None else (part.place.line, part.place.column))]
        # Tables of one schema may have two columns of one name.
        alike = all(table.schema.equals(tables[0].schema) for table in tables)
        try:
            return pa.concat_tables(tables, promote_options="none" if alike else "permissive")
        except pa.ArrowException as reason:
            raise ConfigError(
                f"the SELECTs of a UNION ALL return values that do not fit into one column: {reason}",
                hint="CAST them to one type",
            ) from reason

    def open_set(self, part: ScriptPart, following: Iterable[ScriptPart] | None) -> None:
        """Begin a statement set; a set that nothing ends is refused before its first INSERT is run."""
        if self._set is not None:
            raise ConfigError("a statement set is open", hint="END it before the next one begins")
        if following is not None:
            check_end(following)
        self._set = part

    def close_set(self) -> Iterator[pa.Table]:
        """End a statement set; what caught up means is the same for all its streams."""
        if self._set is None:
            raise ConfigError("no statement set is open", hint="BEGIN STATEMENT SET; ... END")
        self._set = None
        if self._until_caught_up:
            yield from self._jobs.run(self._context)
        yield done()

    def check(self, part: ScriptPart, statement: Statement) -> None:
        """Raise ConfigError for statements that a statement set or the streaming mode excludes."""
        if self._set is not None and not isinstance(statement, Insert):
            raise ConfigError(
                "a statement set consists of INSERT statements", hint="END the set before other statements"
            )
        if self._is_streaming and isinstance(statement, CreateTable) and statement.query is not None:
            hint = f"CREATE TABLE, then INSERT INTO; or SET '{MODE}' = 'batch'"
            raise refused(part.place, "CREATE TABLE AS needs a query that ends", hint)

    @property
    def _is_streaming(self) -> bool:
        return self._context.options.get(MODE) == "streaming"

    def reads(self, statement: Statement) -> TypeGuard[Insert | SqlQuery]:
        """Return whether the statement reads tables as streams."""
        if not self._is_streaming or not isinstance(statement, Insert | SqlQuery):
            return False
        query = statement.query if isinstance(statement, Insert) else statement.text
        return first_word(query) in _QUERIES and reads_tables(self._context.session, query)

    def add(self, part: ScriptPart, statement: Insert | SqlQuery) -> Iterator[pa.Table]:
        """Make the jobs of a statement; they run at once if they end by themselves, else with the other streams."""
        caught_up = self._until_caught_up
        started: list[str] = []
        if isinstance(statement, Insert):
            inserts = stream_inserts(self._context, part, statement, until_caught_up=caught_up)
            started = [job.user for job in inserts]
            self._jobs.add(part, inserts)
        else:
            self.check(part, statement)
            self._jobs.add(part, stream_selects(self._context, part, statement, until_caught_up=caught_up))
        if caught_up and self._set is None:
            yield from self._jobs.run(self._context)
        elif started:
            yield one_column("job", started)

    def run(self, *, ends: bool) -> Iterator[pa.Table]:
        """Run the streams that were not run yet, unless a statement set is open that the next call may end."""
        if self._set is not None and not ends:
            return
        if self._set is not None:
            error = no_end()
            self._set.locate(error)
            raise error
        yield from self._jobs.run(self._context)


def check_end(following: Iterable[ScriptPart]) -> None:
    """Raise ConfigError unless the statements after the beginning of a statement set end it before the next begins."""
    words = (first_word(other.text).lower() for other in following)
    if next((word for word in words if word in {"end", "begin", "execute"}), None) != "end":
        raise no_end()


def no_end() -> ConfigError:
    """Return the error for a statement set that nothing ends."""
    return ConfigError("the statement set has no END", hint="write END; after its last INSERT")
