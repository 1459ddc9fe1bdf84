CREATE USER cdc IDENTIFIED BY 'cdc';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc;
CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer VARCHAR(40), amount DECIMAL(10, 2), status VARCHAR(10));
INSERT INTO orders (customer, amount, status) VALUES ('ann', 49.90, 'new'), ('bob', 12.00, 'paid'), ('cy', 96.00, 'new');
CREATE TABLE customers (name VARCHAR(40) PRIMARY KEY, country CHAR(2));
INSERT INTO customers VALUES ('ann', 'de'), ('bob', 'fr'), ('cy', 'jp');
