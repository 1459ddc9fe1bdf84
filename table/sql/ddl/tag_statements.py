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
            _delete(table, tag, if_exists=if_exists)
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


def _delete(table: Table, text: str, *, if_exists: bool) -> None:
    """Delete a tag, or the tags of a list with commas, as in Paimon; none of them if one is missing."""
    known = set(table.tags)
    tags = [text] if text in known else [tag.strip() for tag in text.split(",")]
    missing = next((tag for tag in tags if tag not in known), None)
    if missing is not None and not if_exists:
        raise ConfigError(
            f"there is no tag {missing!r}", table=table.name, hint="SHOW TAGS t lists them; or DELETE TAG IF EXISTS"
        )
    for tag in tags:
        if tag in known:
            table.delete_tag(tag)
