"""Rules that name a table or a column that the source does not have. Such a rule would do nothing, so it is refused.

A mask with a misspelt column would leave private data in clear text without any sign of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigError, did_you_mean
from penstock.formats.change import SourceSchema
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.sink import SinkConfig
from penstock.pipelines.job.failing_rules import shaped_unless_failing
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.schema_evolution.expression_columns import may_lack_columns
from penstock.schema_evolution.transforms import Transform
from penstock.table.meta.store import TableMissing
from penstock.table.schema.validation import UnusableName
from penstock.table_pattern import TablePattern


class NoSuchTable(ConfigError):
    """A rule names tables that do not exist."""


class NoSuchColumn(ConfigError):
    """A key or a computed column names a column that no table has."""


def lacking_columns(schema: SourceSchema) -> SourceSchema:
    """Return a schema that was found in messages, marked as partial if its rows may lack columns of their table."""
    return replace(schema, is_partial=True) if may_lack_columns(schema) else schema


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The source tables that rules are compared with.

    `before` are tables read in the past: rules for those may stay. `hiding` are tables with columns that the user may
    not see, so that rules on their columns cannot be judged. Expressions may use columns that `sampled` rows lack.
    Those of `failing` tables are known to fail, which is no error here.
    """

    schemas: Sequence[SourceSchema]
    before: Collection[SourceName] = ()
    hiding: Collection[SourceName] = ()
    sampled: bool = False
    failing: Collection[SourceName] = ()

    def captured(self, mapping: PipelineMapping) -> KnownTables:
        """Return these tables without those that have no target."""
        taken = [schema for schema in self.schemas if mapping.target(schema.database, schema.table) is not None]
        return replace(self, schemas=taken)

    def had(self, pattern: TablePattern) -> bool:
        """Return whether a table that was read in the past has such a name."""
        return any(pattern.match(*name) for name in self.before)

    def judged(self, schemas: Sequence[SourceSchema]) -> Sequence[SourceSchema]:
        """Return schemas as expressions are checked on them."""
        return list(map(lacking_columns, schemas)) if self.sampled else schemas

    def shaped(self, mapping: PipelineMapping, schemas: Sequence[SourceSchema]) -> list[SourceSchema]:
        """Return schemas after their transforms; ConfigError if an expression cannot be computed."""
        return [shaped_unless_failing(mapping, schema, self.failing) for schema in self.judged(schemas)]


def unmet_rules(spec: PipelineSpec, mapping: PipelineMapping, tables: KnownTables) -> list[ConfigError]:
    """Return an error for each rule that matches no source table, or no column of them."""
    captured = tables.captured(mapping)
    found = [
        *_transforms(mapping, captured),
        *_routes(mapping, captured),
        *_expectations(mapping, captured),
        *_table_options(mapping, captured),
        *_columns_made(spec.sink, mapping, captured),
    ]
    # A transform that fails, as with a lookup in a table that does not exist, is found again by each rule on its rows.
    return list({str(error): error for error in found}.values())


def check_rules(spec: PipelineSpec, mapping: PipelineMapping, tables: KnownTables) -> None:
    """Raise ConfigError with all unmet rules."""
    found = unmet_rules(spec, mapping, tables)
    if len(found) == 1:
        raise found[0]
    if found:
        errors = [f"{error.message}{f' ({error.hint})' if error.hint else ''}" for error in found]
        raise ConfigError(f"{len(found)} rules cannot be applied", hint="; ".join(errors[:10]), rules=len(found))


def _transforms(mapping: PipelineMapping, tables: KnownTables) -> Iterator[ConfigError]:
    rules = mapping.table_rules.transforms
    meant: dict[int, list[SourceSchema]] = {}
    for schema in tables.schemas:
        # Only the first rule that matches a table applies, so that a rule which is never the first has no effect.
        first = mapping.table_rules.transform(schema.database, schema.table)
        if first is not None:
            meant.setdefault(next(n for n, rule in enumerate(rules) if rule is first), []).append(schema)
    for number, rule in enumerate(rules):
        if number in meant:
            if not any((schema.database, schema.table) in tables.hiding for schema in meant[number]):
                yield from _columns_of_rule(mapping, rule, meant[number], tables)
        elif not tables.had(rule.tables):
            yield _no_table("transform", rule.tables, tables.schemas)


def _columns_of_rule(
    mapping: PipelineMapping, rule: Transform, matched: Sequence[SourceSchema], tables: KnownTables
) -> Iterator[ConfigError]:
    """Yield errors for masks, keys and partitions with a column that no matched table has after the projection."""
    try:
        after = {field.name for schema in tables.shaped(mapping, matched) for field in schema.fields}
    except ConfigError as error:  # the error of an expression
        yield error
        return
    there = columns_there(mapping, matched)
    for name in (rule.masks or {}).keys() - after if not any(schema.is_partial for schema in matched) else ():
        if mapping.rules.name(name) not in there:
            yield _no_column(f"mask on {name!r}", rule.tables.text, name, after, ConfigError)
    folded = {*map(mapping.rules.name, after), *there, *mapping.made}
    for kind, names in (("primary key", rule.primary_keys), ("partition key", rule.partition_keys)):
        for name in names:
            if mapping.rules.name(name) not in folded:
                yield _no_column(f"{kind} {name!r}", rule.tables.text, name, folded)


def columns_there(mapping: PipelineMapping, matched: Sequence[SourceSchema]) -> set[str]:
    """Return the columns that the target tables already have: a source may have dropped a column that a rule names."""
    found: set[str] = set()
    for target in {mapping.target(schema.database, schema.table) for schema in matched} - {None}:
        try:
            found.update(mapping.warehouse.opened(str(target)).schema().names)
        except (TableMissing, UnusableName):
            continue
    return found


def _routes(mapping: PipelineMapping, tables: KnownTables) -> Iterator[ConfigError]:
    rules = mapping.table_rules.routes
    names = [*((schema.database, schema.table) for schema in tables.schemas), *tables.before]
    met = {next((number for number, rule in enumerate(rules) if rule.tables.match(*name)), None) for name in names}
    for number, rule in enumerate(rules):
        if number not in met:
            yield _no_table("route", rule.tables, tables.schemas)


def _expectations(mapping: PipelineMapping, tables: KnownTables) -> Iterator[ConfigError]:
    unjudged = {*tables.hiding, *tables.failing}
    for rule in mapping.table_rules.expectations:
        matched = [schema for schema in tables.schemas if rule.tables.match(schema.database, schema.table)]
        if not matched and not tables.had(rule.tables):
            yield _no_table("expectation", rule.tables, tables.schemas)
        for schema in tables.judged([schema for schema in matched if (schema.database, schema.table) not in unjudged]):
            try:
                mapping.examined(schema)
            except ConfigError as error:
                yield error


def _table_options(mapping: PipelineMapping, tables: KnownTables) -> Iterator[ConfigError]:
    targets = sorted({mapping.target(schema.database, schema.table) or "" for schema in tables.schemas})
    known = {*targets, *(mapping.target(*name) for name in tables.before)}
    for table in mapping.table_rules.options:
        if table not in known:
            yield NoSuchTable(
                f"options are given for {table}, and no source table goes to it", hint=_nearest(table, targets)
            )


def _columns_made(sink: SinkConfig, mapping: PipelineMapping, tables: KnownTables) -> Iterator[ConfigError]:
    """Yield errors for keys and computed columns of the whole pipeline that apply to no table."""
    try:
        # A projection may rename, drop and compute columns, so keys are compared with the columns after it.
        shaped = tables.shaped(mapping, tables.schemas)
    except ConfigError:  # already reported with its rule
        return
    if not shaped:
        return
    names = {mapping.rules.name(field.name) for schema in shaped for field in schema.fields}
    known = names | columns_there(mapping, tables.schemas) | mapping.made
    yield from _unmet_keys(sink, mapping, known)
    yield from _unmet_computed(mapping, shaped, known)
    yield from _unmet_partition_keys(sink, mapping, tables.schemas, shaped)


def _unmet_keys(sink: SinkConfig, mapping: PipelineMapping, known: Collection[str]) -> Iterator[ConfigError]:
    for kind, keys in (("primary key", sink.primary_keys), ("partition key", sink.partition_keys)):
        for name in keys:
            if mapping.rules.name(name) not in known:
                yield _no_column(f"{kind} {name!r}", "any captured table", name, known)


def _unmet_computed(
    mapping: PipelineMapping, shaped: Sequence[SourceSchema], known: Collection[str]
) -> Iterator[ConfigError]:
    for computed in mapping.new_tables.computed:
        for name in computed.references:
            if name not in known and not any(schema.is_partial for schema in shaped):
                yield _no_column(
                    f"computed column {computed.name!r} is computed from {name!r}", "any captured table", name, known
                )


def _unmet_partition_keys(
    sink: SinkConfig, mapping: PipelineMapping, schemas: Sequence[SourceSchema], shaped: Sequence[SourceSchema]
) -> Iterator[ConfigError]:
    """Yield errors for partition keys of single tables. `shaped` are the schemas after their transforms."""
    for table, keys in sink.multiple_table_partition_keys.items():
        own = [schema for schema in shaped if schema.table == table]
        if not own:
            known_tables = sorted(schema.table or "" for schema in schemas)
            yield NoSuchTable(
                f"partition keys are set for {table}, which is not a captured table", hint=_nearest(table, known_tables)
            )
        columns = {mapping.rules.name(field.name) for schema in own for field in schema.fields} | mapping.made
        for name in keys if own else ():
            if mapping.rules.name(name) not in columns:
                yield _no_column(f"partition key {name!r}", table, name, columns)


def _no_table(kind: str, pattern: TablePattern, schemas: Sequence[SourceSchema]) -> ConfigError:
    if any(pattern.match(schema.database, schema.table) for schema in schemas):
        return ConfigError(
            f"the {kind} of {pattern.text} applies to no table: an earlier {kind} matches all its tables",
            hint="the first rule that matches a table applies to it: write the specific rule before the general one",
        )
    known = sorted(f"{schema.database}.{schema.table}" for schema in schemas)
    return NoSuchTable(f"the {kind} of {pattern.text} matches no captured table", hint=_nearest(pattern.text, known))


def _no_column(
    message: str, table: str, name: str, known: Iterable[str], kind: type[ConfigError] = NoSuchColumn
) -> ConfigError:
    return kind(f"{message}, which is not a column of {table}", hint=_nearest(name, sorted(known)))


def _nearest(name: str, known: Sequence[str]) -> str:
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    return did_you_mean(name, known, f"there are {shown}" if known else "the source shows no table", cutoff=0.5)
