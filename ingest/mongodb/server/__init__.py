"""The server: connections, its collections, and checks of its settings."""
