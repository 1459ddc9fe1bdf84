-- The dimension of users: the tables of two databases as one, the city in upper case.
SET 'execution.runtime-mode' = 'streaming';
SET 'pipeline.name' = 'dim-users';

CREATE DATABASE IF NOT EXISTS dim;
CREATE TABLE IF NOT EXISTS dim.users (id BIGINT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2');

INSERT INTO dim.users (id, name, city)
SELECT id, name, upper(city) FROM ods_north.users /*+ OPTIONS('consumer-id' = 'dim-users') */
UNION ALL
SELECT id, name, upper(city) FROM ods_south.users /*+ OPTIONS('consumer-id' = 'dim-users') */;
