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
    "compact-manifest": f"penstock compact-manifest {_TABLE} --dry-run",
    "rescale": f"penstock rescale {_TABLE} --bucket-num 8 --partition dt=2026-01-31",
    "clone": "penstock clone --warehouse /lake --database ods --target-warehouse s3://lake --target-database copy",
    "copy-files": "penstock copy-files --warehouse /lake --database ods --target-warehouse s3://lake",
    "expire-changelogs": f"penstock expire-changelogs {_TABLE} --retain-max 100",
    "create-tag-from-timestamp": f"penstock create-tag-from-timestamp {_TABLE} --tag monday --timestamp '2026-01-31"
    " 12:00:00'",
    "create-tag-from-watermark": f"penstock create-tag-from-watermark {_TABLE} --tag monday --watermark 1769860800000",
    "replace-tag": f"penstock replace-tag {_TABLE} --tag-name monday --snapshot 13",
    "rename-tag": f"penstock rename-tag {_TABLE} --tag-name monday --target-tag-name week-5",
    "delete-tag": f"penstock delete-tag {_TABLE} --tag-name monday,tuesday",
    "expire-tags": f"penstock expire-tags {_TABLE}",
    "create-branch": f"penstock create-branch {_TABLE} --branch-name trial --tag-name monday",
    "delete-branch": f"penstock delete-branch {_TABLE} --branch-name trial",
    "fast-forward": f"penstock fast-forward {_TABLE} --branch-name trial",
    "rollback-to-timestamp": f"penstock rollback-to-timestamp {_TABLE} --timestamp '2026-01-31 12:00:00'",
    "reset-consumer": f"penstock reset-consumer {_TABLE} --consumer-id reports --next-snapshot 12",
    "clear-consumers": f"penstock clear-consumers {_TABLE} --including-consumers 'test_.*'",
    "merge-into": f"penstock merge-into {_TABLE} --source-table changes --on 'orders.id = changes.id' --merge-actions"
    " matched-upsert,not-matched-insert --matched-upsert-set '*' --not-matched-insert-values '*'",
    "expire-partitions": f"penstock expire-partitions {_TABLE} --expiration-time '30 d' --timestamp-formatter yyyyMMdd",
    "mark-partition-done": f"penstock mark-partition-done {_TABLE} --partition dt=2026-01-31",
    "remove-unexisting-files": f"penstock remove-unexisting-files {_TABLE} --dry-run",
    "remove-unexisting-manifests": f"penstock remove-unexisting-manifests {_TABLE} --dry-run",
    "expire-snapshots": f"penstock expire-snapshots {_TABLE} --retain-max 10",
    "create-tag": f"penstock create-tag {_TABLE} --tag-name monday --snapshot 12",
    "rollback-to": f"penstock rollback-to {_TABLE} --version 12",
    "remove-orphan-files": f"penstock remove-orphan-files {_TABLE} --dry-run",
    "delete": f'penstock delete {_TABLE} --where "id = 7"',
    "drop-partition": f"penstock drop-partition {_TABLE} --partition dt=2026-01-31",
}
