"""The log: events of change streams between two cluster times."""
