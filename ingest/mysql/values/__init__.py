"""One conversion function per type, shared by snapshot and binlog, so that both yield the same values."""
