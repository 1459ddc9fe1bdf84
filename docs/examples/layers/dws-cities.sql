-- Totals by city. Updates and deletes of orders are subtracted by the changelog of dwd.orders.
SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'dws-cities';

CREATE DATABASE IF NOT EXISTS dws;
CREATE TABLE IF NOT EXISTS dws.cities (
    city STRING, orders BIGINT, pieces BIGINT, amount BIGINT, PRIMARY KEY (city) NOT ENFORCED
) WITH (
    'bucket' = '1',
    'merge-engine' = 'aggregation',
    'fields.orders.aggregate-function' = 'sum',
    'fields.pieces.aggregate-function' = 'sum',
    'fields.amount.aggregate-function' = 'sum'
);

INSERT INTO dws.cities (city, orders, pieces, amount)
SELECT coalesce(city, 'unknown'), 1, pieces, amount FROM dwd.orders /*+ OPTIONS('consumer-id' = 'dws-cities') */;
