"""CREATE, REPLACE, DELETE and RENAME TAG of ALTER TABLE."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.options.kinds import parse_duration
from penstock.table.sql.grammar.table_statements import CreateTag, DeleteTag, RenameTag


def alter_tag(table: Table, statement: CreateTag | DeleteTag | RenameTag) -> None:
    """Run a statement about a tag of the table."""
    match statement:
        case CreateTag():
            _create(table, statement)
        case DeleteTag(tag=tag, if_exists=if_exists):
            if tag in table.tags:
                table.delete_tag(tag)
            elif not if_exists:
                raise ConfigError(
                    f"there is no tag {tag!r}", table=table.name, hint="SHOW TAGS t lists them; or DELETE TAG IF EXISTS"
                )
        case RenameTag(tag=tag, new=new):
            table.rename_tag(tag, new)


def _create(table: Table, statement: CreateTag) -> None:
    exists = statement.tag in table.tags
    if exists and statement.if_not_exists:
        return
    retain = None if statement.retained is None else parse_duration(statement.retained)
    if statement.replaces and (exists or not statement.creates):
        table.replace_tag(statement.tag, statement.snapshot, retain_millis=retain)
    else:
        table.create_tag(statement.tag, statement.snapshot, retain_millis=retain)
