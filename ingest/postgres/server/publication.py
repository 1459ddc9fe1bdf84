"""The publication of a pipeline: which tables it has, and statements that create or extend it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ingest.database.findings import MissingGrant
from penstock.ingest.postgres.errors import PublicationMissing, TableNotPublished
from penstock.ingest.postgres.server.catalog import TableName, qualified, quoted
from penstock.ingest.postgres.server.catalog_numbers import row_number, rows_number

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection

log = logging.getLogger(__name__)
_SCHEMAS_SINCE = 150_000  # as in server_version_num: publications of all tables of a schema


@dataclass(frozen=True, slots=True)
class Publication:
    """The publication of a pipeline. `creates`: it may be created and extended."""

    name: str
    creates: bool = True

    def published(self, connection: PgConnection) -> set[TableName] | None:
        """Return the tables that are published, None if the publication does not exist."""
        name = connection.literal(self.name)
        if connection.value(f"SELECT 1 FROM pg_publication WHERE pubname = {name}") is None:
            return None
        # The view has only the partitions of a partitioned table whose changes come under their names.
        rows = connection.rows(
            f"SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = {name} UNION "
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            f"JOIN pg_publication p ON p.pubname = {name} WHERE c.relkind = 'p' AND NOT c.relispartition AND "
            "(p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid "
            "AND r.prrelid = c.oid))"
        )
        return {(str(schema), str(table)) for schema, table in rows}

    def marks(self, connection: PgConnection, oids: Collection[int]) -> dict[int, int]:
        """Return a number for each of these tables that exists: another one once the publication may have lacked it.

        ALTER PUBLICATION writes the catalog row of the publication, or replaces the row of a table or a schema, also if
        another statement restores the former state. 0 is a publication that does not exist.
        """
        if not oids:
            return {}
        has_schemas = connection.version >= _SCHEMAS_SINCE
        in_schema = (
            "UNION ALL SELECT s.oid, s.xmin FROM pg_publication_namespace s WHERE s.pnpubid = p.oid "
            "AND s.pnnspid = c.relnamespace "
        )
        rows = connection.rows(
            f"SELECT c.oid, (SELECT {rows_number(row_number('o.oid', 'o.xmin'))} FROM ("
            "SELECT p.oid, p.xmin UNION ALL SELECT r.oid, r.xmin FROM pg_publication_rel r WHERE r.prpubid = p.oid "
            f"AND r.prrelid = c.oid {in_schema if has_schemas else ''}) o(oid, xmin) WHERE o.oid IS NOT NULL) "
            f"FROM pg_class c LEFT JOIN pg_publication p ON p.pubname = {connection.literal(self.name)} "
            f"WHERE c.oid IN ({', '.join(map(str, sorted(oids)))})"
        )
        return {int(str(oid)): int(str(number)) for oid, number in rows}

    def create_statement(self, tables: Collection[TableName]) -> str:
        listed = ", ".join(map(qualified, sorted(tables)))
        # Rows of partitions are published under the name of their table, as the first snapshot reads them.
        return f"CREATE PUBLICATION {quoted(self.name)} FOR TABLE {listed} WITH (publish_via_partition_root = true)"

    def add_statement(self, tables: Sequence[TableName]) -> str:
        return f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {', '.join(map(qualified, tables))}"

    def may_change(self, connection: PgConnection, oids: Sequence[int]) -> bool:
        """Return whether the user may create the publication, or if it exists extend it, with these tables."""
        owner = (
            f"SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = {connection.literal(self.name)}"
        )
        numbers = ", ".join(map(str, oids))
        found = connection.value(
            f"SELECT coalesce(({owner}), has_database_privilege(current_database(), 'CREATE')) AND NOT EXISTS "
            f"(SELECT 1 FROM pg_class WHERE oid IN ({numbers}) AND NOT pg_has_role(relowner, 'USAGE'))"
        )
        return found == "t"

    def require(self, connection: PgConnection, tables: Collection[TableName]) -> bool:
        """Create or extend the publication as needed; return whether anything changed.

        An error names the statement for the owner of the tables.
        """
        found = self.published(connection)
        if found is None:
            self._run(connection, self.create_statement(tables), PublicationMissing, "the publication does not exist")
            return True
        missing = sorted(set(tables) - found)
        if missing:
            why = "captured tables are not in the publication"
            self._run(connection, self.add_statement(missing), TableNotPublished, why)
        return bool(missing)

    def _run(
        self, connection: PgConnection, statement: str, error: type[PublicationMissing | TableNotPublished], why: str
    ) -> None:
        if not self.creates:
            raise error(why, publication=self.name, hint=f"{statement};")
        try:
            connection.rows(statement)
        except MissingGrant as reason:
            text = reason.facts.get("reason")
            hint = f"as the owner of the tables:  {statement};"
            raise error(
                f"{why}, and the user may not change that", publication=self.name, reason=text, hint=hint
            ) from reason
        log.info("event=publication_changed statement=%s", statement)
