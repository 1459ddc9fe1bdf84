"""The first copy of collections: chunks by `_id`."""
