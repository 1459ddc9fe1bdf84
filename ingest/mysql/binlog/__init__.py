"""The binary log: its events, table maps, and row images decoded for many events at once."""
