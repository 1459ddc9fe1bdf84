"""The common parts of sources that read the tables of a database in chunks, and then its log."""
