"""What can be wrong with values."""

from __future__ import annotations

from penstock.errors import DecodeError


class CastFailed(DecodeError):
    """A stored value has no counterpart in the type it is wanted in: `abc` as INT."""
