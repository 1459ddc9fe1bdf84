"""The PostgreSQL source: snapshot and logical decoding to Arrow."""
