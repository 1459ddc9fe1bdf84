-- One wide row for each order from two streams: the order, and its payment whenever that arrives.
SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'wide-orders';

CREATE DATABASE IF NOT EXISTS dwd;
CREATE TABLE IF NOT EXISTS dwd.wide_orders (
    id BIGINT, user_id BIGINT, product STRING, pieces BIGINT, paid BIGINT, PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket' = '2', 'merge-engine' = 'partial-update', 'ignore-delete' = 'true');

INSERT INTO dwd.wide_orders (id, user_id, product, pieces, paid)
SELECT id, user_id, product, pieces, NULL FROM ods.orders /*+ OPTIONS('consumer-id' = 'wide-orders') */
UNION ALL
SELECT id, NULL, NULL, NULL, paid FROM ods.payments /*+ OPTIONS('consumer-id' = 'wide-orders') */;
