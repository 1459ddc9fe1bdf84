"""The MongoDB source: collections and change streams to Arrow."""
