"""One function a type: both the snapshot and the log give their cells through these, so that both give the same."""
