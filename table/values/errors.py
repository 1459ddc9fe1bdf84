"""Errors about values."""

from __future__ import annotations

from penstock.errors import DecodeError


class CastFailed(DecodeError):
    """A stored value that cannot be represented in the requested type, such as `abc` as INT."""
