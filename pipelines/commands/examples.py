"""One command line of each command, as `--help` shows it. Imports nothing: --help pays nothing."""

from __future__ import annotations

_TABLE = "--warehouse /lake --database ods --table orders"
_MYSQL = "--mysql-conf hostname=db --mysql-conf username=cdc --mysql-conf password='${MYSQL_PASSWORD}'"
_KAFKA = "--kafka-conf properties.bootstrap.servers=kafka:9092 --kafka-conf value.format=canal-json"

EXAMPLES = {
    "init": "penstock init mysql://cdc@db:3306/shop /lake --output shop.yaml",
    "check": "penstock check shop.yaml",
    "plan": "penstock plan shop.yaml",
    "run": "penstock run shop.yaml --until-caught-up",
    "status": "penstock status shop.yaml",
    "signal": "penstock signal shop.yaml snapshot ods.orders",
    "verify": "penstock verify shop.yaml --tables ods.orders --wait 5min",
    "dlq": "penstock dlq shop.yaml show --limit 5",
    "schema": "penstock schema > penstock.schema.json",
    "demo": "penstock demo",
    "warm": "penstock warm",
    "mysql-sync-table": f"penstock mysql-sync-table {_TABLE} {_MYSQL} --mysql-conf database-name=shop --mysql-conf"
    " table-name=orders",
    "mysql-sync-database": f"penstock mysql-sync-database --warehouse /lake --database ods {_MYSQL} --mysql-conf"
    " database-name=shop",
    "kafka-sync-table": f"penstock kafka-sync-table {_TABLE} {_KAFKA} --kafka-conf topic=orders",
    "kafka-sync-database": f"penstock kafka-sync-database --warehouse /lake --database ods {_KAFKA} --kafka-conf"
    " topic=shop",
    "tables": "penstock tables /lake",
    "show": "penstock show ods.orders --warehouse /lake",
    "sql": 'penstock sql "select * from ods.orders for version as of 3" --warehouse /lake',
    "compact": f"penstock compact {_TABLE} --compact-strategy full",
    "compact-database": "penstock compact-database --warehouse /lake --including-databases ods",
    "expire-snapshots": f"penstock expire-snapshots {_TABLE} --retain-max 10",
    "create-tag": f"penstock create-tag {_TABLE} --tag-name monday --snapshot 12",
    "rollback-to": f"penstock rollback-to {_TABLE} --version 12",
    "remove-orphan-files": f"penstock remove-orphan-files {_TABLE} --dry-run",
    "delete": f'penstock delete {_TABLE} --where "id = 7"',
    "drop-partition": f"penstock drop-partition {_TABLE} --partition dt=2026-01-31",
}
