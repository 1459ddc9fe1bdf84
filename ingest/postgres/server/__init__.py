"""Connections to a PostgreSQL server, its catalog, and its replication slots."""
