"""Options of a frame whose rows create a table: `df.write.option("primary-key", "id").saveAsTable("t")`."""

from __future__ import annotations

from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_catalog.table_creation import key_columns
from penstock.pipelines.spark_source.spark_options import OWN
from penstock.table.options.definition import PRIMARY_KEY
from penstock.table.sql.ddl.definitions import copied_column


def set_created_options(request: Request) -> dict[str, str]:
    """Set options of a write on the table that its statement has just created; return those of the write alone.

    Spark passes all of them to the write only, and creates the table without options. In Paimon they are the table's.
    """
    created = request.table().definition
    given = request.texts("written")
    of_write = {name: text for name, text in given.items() if name.lower() in OWN}
    options = {name: text for name, text in given.items() if name not in of_write}
    if created.primary_keys and key_columns(options.get(PRIMARY_KEY.key, "")) == set(created.primary_keys):
        del options[PRIMARY_KEY.key]
    if any(created.options.get(name) != text for name, text in options.items()):
        name = request.whole_table()
        request.catalog.drop_table(name)
        request.catalog.create_table(
            name,
            [copied_column(column) for column in created.fields],
            created.primary_keys,
            created.partition_keys,
            {**created.options, **options},
            created.comment,
        )
    return of_write
