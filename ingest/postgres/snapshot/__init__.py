"""The rows that tables have when a pipeline starts, in chunks by key."""
