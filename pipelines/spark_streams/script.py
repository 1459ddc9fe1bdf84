"""The statements of a script on Spark. Some of them may run as streams."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from threading import Event

import pyarrow as pa
from pyspark.errors import PySparkException

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.spark_streams.query_plans import Node, items
from penstock.pipelines.spark_streams.query_text import StreamedText, refuse_lookups, with_options
from penstock.pipelines.spark_streams.statement_errors import statement_error
from penstock.pipelines.spark_streams.stream_queries import StreamSession, named_table, stream_queries
from penstock.pipelines.spark_streams.stream_steps import SparkInsert, SparkJob, SparkSelect, StreamSteps, query_hash
from penstock.table.options.kinds import parse_duration
from penstock.table.sql.ddl.tag_statements import alter_tag
from penstock.table.sql.grammar.mentions import mentions
from penstock.table.sql.grammar.scripts import ScriptPart, first_word, script_parts
from penstock.table.sql.grammar.session_statements import SessionOption, StatementSet, StatementSetEnd
from penstock.table.sql.grammar.statement_grammar import read_statement
from penstock.table.sql.grammar.statements import Show
from penstock.table.sql.grammar.table_statements import CreateTag, DeleteTag, RenameTag
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.context import done, one_column
from penstock.table.sql.streams.job_progress import PIPELINE_NAME, JobProgress, job_user
from penstock.table.sql.streams.script_streams import MODE, check_end
from penstock.table.sql.streams.stream_jobs import INTERVAL, check_job_option, without_rows
from penstock.table.sql.streams.stream_rules import check_source, check_target
from penstock.table.sql.streams.stream_text import refused

_RESULT = pa.schema([("job", pa.string()), ("read_to", pa.int64()), ("written", pa.int64()), ("snapshot", pa.int64())])
_MODES = ("batch", "streaming")
_OWN = (MODE, PIPELINE_NAME, INTERVAL)
_SET_OF_STATEMENTS = re.compile(r"(begin|execute)\s+statement\s+set\b", re.IGNORECASE)
_OF_TAGS = re.compile(
    r"show\s+tags\b|alter\s+table\s+\S+\s+(?:create|create\s+or\s+replace|replace|delete|rename)\s+tag\b", re.IGNORECASE
)
_QUERIES = {"select", "with", "from", "("}


class SparkScript:
    """A script. Its streams run together, with their statement set or at the end of the script."""

    def __init__(self, session: StreamSession, *, streaming: bool = False, until_caught_up: bool = False) -> None:
        self._session, self._until_caught_up = session, until_caught_up
        self._options = {MODE: "streaming"} if streaming else {}
        self._jobs: list[tuple[ScriptPart, SparkJob]] = []
        self._set: ScriptPart | None = None
        self.is_streaming = False
        self.stop = Event()

    def run(self, script: str) -> Generator[pa.Table, None, None]:
        """Run the statements, and yield the result of each one. Errors name line and column."""
        parts = list(script_parts(script))
        for number, part in enumerate(parts):
            yield from _located(part, self._run(part, parts[number + 1 :]))
        yield from self._run_jobs()

    def _run(self, part: ScriptPart, following: Sequence[ScriptPart] = ()) -> Iterator[pa.Table]:
        """Run a statement; `following` are those after it."""
        word = first_word(part.text).lower()
        if word in {"set", "reset"} and self._takes_option(part):
            yield done()
        elif _SET_OF_STATEMENTS.match(part.text) or (word == "end" and self._set is not None):
            yield from self._statement_set(part, following)
        elif self._set is not None and word != "insert":
            hint = "END the set before other statements"
            raise ConfigError("a statement set consists of INSERT statements", hint=hint)
        elif _OF_TAGS.match(part.text):
            yield self._tags(part)
        elif self._options.get(MODE) == "streaming":
            yield from self._stream(part, with_options(part.text))
        else:
            yield self._once(with_options(part.text))

    def _once(self, text: str) -> pa.Table:
        rows = self._session.spark.sql(text)
        return rows.toArrow() if rows.columns else done()

    def _tags(self, part: ScriptPart) -> pa.Table:
        """Run a statement about tags, which Spark's parser does not know."""
        statement = read_statement(part.text, part.place.line, part.place.column)
        assert isinstance(statement, Show | CreateTag | DeleteTag | RenameTag)
        table = self._session.table(statement.name or ())
        if isinstance(statement, Show):
            return one_column("tag", table.system("tags").column("tag_name").to_pylist())
        alter_tag(table, statement)
        return done()

    def _takes_option(self, part: ScriptPart) -> bool:
        """Set an option of streams; return whether the statement is about one."""
        if part.text.strip().lower() == "reset":
            self._options.clear()
        if not any(key in part.text.lower() for key in _OWN):
            return False
        option = read_statement(part.text, part.place.line, part.place.column)
        if not isinstance(option, SessionOption) or option.key is None:
            return False
        key = option.key.lower()
        if option.value is None:
            self._options.pop(key, None)
        elif key == MODE and option.value.lower() not in _MODES:
            raise ConfigError(
                f"{option.key} = {option.value!r} is not supported here", hint=f"it can be {' or '.join(_MODES)}"
            )
        else:
            if key != MODE:
                check_job_option(key, option.value)
            self._options[key] = option.value.lower() if key == MODE else option.value
        return True

    def _statement_set(self, part: ScriptPart, following: Sequence[ScriptPart]) -> Iterator[pa.Table]:
        statement = read_statement(part.text, part.place.line, part.place.column)
        if isinstance(statement, StatementSetEnd):
            self._set = None
            if self._until_caught_up:
                yield from self._run_jobs()
            yield done()
            return
        if self._set is not None:
            raise ConfigError("a statement set is open", hint="END it before the next one begins")
        check_end(following)
        self._set = part
        if isinstance(statement, StatementSet) and statement.place is not None:
            first = ScriptPart(statement.first, statement.place)
            yield from _located(first, self._run(first))

    def _stream(self, part: ScriptPart, text: str) -> Iterator[pa.Table]:
        """Run a statement as a stream if it can be one: INSERT, or a query of tables."""
        plan = self._session.parsed(text)
        name = str(plan.getClass().getSimpleName())
        if name in {"CreateTableAsSelect", "ReplaceTableAsSelect"}:
            hint = f"CREATE TABLE, then INSERT INTO; or SET '{MODE}' = 'batch'"
            raise refused(part.place, "CREATE TABLE AS needs a query that ends", hint)
        is_insert = name == "InsertIntoStatement"
        tokens = tokens_of(text)
        refuse_lookups(tokens)
        words = [mention.names for mention in mentions(tokens)]
        if not (is_insert or first_word(text).lower() in _QUERIES) or not words:
            yield self._once(text)
            return
        if is_insert and plan.overwrite():
            hint = f"INSERT INTO, or SET '{MODE}' = 'batch'"
            raise refused(part.place, "INSERT OVERWRITE needs a query that ends", hint)
        views = [names[0] for names in words if len(names) == 1 and self._session.views(names[0])]
        streamed = StreamedText.of(text, views)
        analyzed = self._session.analyzed(streamed.text)
        if is_insert:
            started = self._inserts(part, streamed, analyzed)
            self._jobs += [(part, job) for job in started]
            yield from self._begun([job.progress.user for job in started])
        else:
            self._jobs += [(part, job) for job in self._selects(part, streamed, analyzed)]
            yield from self._begun([])

    def _begun(self, users: list[str]) -> Iterator[pa.Table]:
        if self._until_caught_up and self._set is None:
            yield from self._run_jobs()
        elif users:
            yield one_column("job", users)

    def _selects(self, part: ScriptPart, text: StreamedText, plan: Node) -> Iterator[SparkSelect]:
        names = [str(item.name()) for item in items(plan.output())]
        for query in stream_queries(self._session, text, plan, part.place):
            check_source(query.branch, ())
            yield SparkSelect(StreamSteps(query, None, until_caught_up=self._until_caught_up), names)

    def _inserts(self, part: ScriptPart, text: StreamedText, plan: Node) -> list[SparkInsert]:
        database, name = named_table(self._session, plan.table())
        table = self._session.settings.open().table(f"{database}.{name}")
        given = self._session.plans.texts(plan.writeOptions())
        jobs_made: list[SparkInsert] = []
        for query in stream_queries(self._session, text, plan.query(), part.place):
            check_source(query.branch, ())
            check_target(query.branch, table, {name: place for place, name in enumerate(query.names)})
            others = [job.progress.user for job in jobs_made]
            user = job_user(self._options, query.source, table, others)
            named = PIPELINE_NAME in self._options
            hashed = query_hash(text.text, sorted(query.source.options.items()))
            progress = JobProgress(query.source, table, user, hashed, named)
            steps = StreamSteps(query, progress.last(), until_caught_up=self._until_caught_up)
            jobs_made.append(SparkInsert(steps, progress, table, given))
        return jobs_made

    def _run_jobs(self) -> Iterator[pa.Table]:
        """Run the jobs, and yield the rows of queries, at last a row for each INSERT."""
        jobs, self._jobs = self._jobs, []
        inserts = [job for _, job in jobs if isinstance(job, SparkInsert)]
        seconds = parse_duration(self._options.get(INTERVAL, "1 s")) / 1000
        self.is_streaming = bool(jobs)
        try:
            while not (self.stop.is_set() or all(job.steps.is_done for _, job in jobs)):
                before = [job.steps.offset for _, job in jobs]
                for part, job in jobs:
                    yield from _located(part, job.step())
                if before == [job.steps.offset for _, job in jobs]:
                    self.stop.wait(seconds)
            for job in inserts:
                job.end()
        except KeyboardInterrupt:
            # The way to end a stream. What is not committed stays in files that no snapshot names.
            for job in inserts:
                job.settle()
        self.is_streaming = False
        yield from without_rows((part, job) for part, job in jobs if isinstance(job, SparkSelect))
        if inserts:
            yield pa.Table.from_pylist([job.result() for job in inserts], _RESULT)


def _located(part: ScriptPart, results: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield results of a statement. Errors name its place."""
    try:
        yield from results
    except PySparkException as reason:
        raise statement_error(part, reason) from reason
    except PenstockError as error:
        part.locate(error)
        raise
