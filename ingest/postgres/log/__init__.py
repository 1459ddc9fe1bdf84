"""The log: messages of the plugin pgoutput, and their decoding."""
