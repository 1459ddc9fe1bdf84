-- Orders with the columns of their user and their product at the time of the order, and the amount.
SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'dwd-orders';

CREATE DATABASE IF NOT EXISTS dwd;
CREATE TABLE IF NOT EXISTS dwd.orders (
    id BIGINT, user_id BIGINT, user_name STRING, city STRING, product STRING, pieces BIGINT, amount BIGINT,
    PRIMARY KEY (id) NOT ENFORCED
) WITH ('bucket' = '2', 'changelog-producer' = 'lookup');

INSERT INTO dwd.orders (id, user_id, user_name, city, product, pieces, amount)
SELECT /*+ LOOKUP('table' = 'u', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay',
                  'fixed-delay' = '1s', 'max-attempts' = '3') */
    o.id, o.user_id, u.name, u.city, o.product, o.pieces, o.pieces * p.price
FROM ods.orders /*+ OPTIONS('consumer-id' = 'dwd-orders') */ AS o
LEFT JOIN dim.users FOR SYSTEM_TIME AS OF o.proc_time AS u ON o.user_id = u.id
JOIN dim.products FOR SYSTEM_TIME AS OF o.proc_time AS p ON o.product = p.code;
