"""The types of NumPy arrays that code of tables passes around."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]  # eight bytes of a key, as an integer with the same order
Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
