"""The binary log: container, table maps, and rows decoded many events side by side."""
