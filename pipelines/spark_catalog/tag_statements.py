"""`ALTER TABLE t CREATE TAG` and its relatives, which the parser of the session extension hands over as a CALL."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.request import Request
from penstock.table.sql.ddl.tag_statements import alter_tag
from penstock.table.sql.grammar.scripts import script_parts
from penstock.table.sql.grammar.statement_grammar import read_statement
from penstock.table.sql.grammar.table_statements import CreateTag, DeleteTag, RenameTag

# The Java class has this name too. The procedure is not listed, because users do not call it.
TAG_PROCEDURE = "alter_table_tag"
TAG_PARAMETERS = {
    "parameters": ["statement"],
    "places": 1,
    "required": 1,
    "description": "runs a statement about a tag",
    "too_many": f"{TAG_PROCEDURE} has one parameter",
}


def run_tag_statement(request: Request) -> None:
    """Run the statement. Its table is in the database of the session if it is named alone."""
    (text,) = request.given["values"]
    (part,) = script_parts(text)
    statement = read_statement(part.text, part.place.line, part.place.column)
    if not isinstance(statement, CreateTag | DeleteTag | RenameTag):
        raise ConfigError("the statement is not about a tag", statement=text, hint="ALTER TABLE t CREATE TAG 'x'")
    name = ".".join([request.database, *statement.name][-2:])
    alter_tag(request.catalog.table(name), statement)
