"""Keeps pandas out of Penstock's own processes until something needs it.

Arrow imports pandas at its first `pa.array` of a list or a NumPy array, only to learn whether it got an object of
pandas: 0.3 s of CPU and 39 MiB, of which a short command has no use. Here Arrow's own question is answered with no.
Every other import of pandas works as ever, and Arrow learns of it, so that it knows the objects of pandas again.

Only commands call `defer`. In a program that imports penstock as a library, Arrow stays as the program knows it.

Without pandas, Arrow has no Python value for a time with nanoseconds. So `needed` is called where such a type is made.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_PANDAS, _ARROW = "pandas", "pyarrow"


class _LateImport:
    """An entry of `sys.meta_path` that acts once when Arrow has been imported, and once when pandas has."""

    def __init__(self) -> None:
        self._asking: int | None = None  # the thread in which Arrow asks
        self.is_deferred = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == _PANDAS and self._asking == threading.get_ident():
            raise ModuleNotFoundError("pandas is imported when it is needed", name=name)
        if name not in {_PANDAS, _ARROW}:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        return _followed_by(self.ask if name == _ARROW else self.tell, next(filter(None, others), None))

    def ask(self) -> None:
        """Let Arrow ask for pandas now, and answer that there is none."""
        if _PANDAS in sys.modules:
            return
        self._asking = threading.get_ident()
        try:
            sys.modules[_ARROW].array(())
        finally:
            self._asking = None
        self.is_deferred = True

    def tell(self) -> None:
        """Let Arrow import pandas, which somebody has imported."""
        if not self.is_deferred:
            return
        try:
            sys.modules[_ARROW].lib._pandas_api.version  # noqa: B018 -- each question but the first one tries again
        except ImportError as reason:  # Arrow warns of a version of pandas that it does not work with
            warnings.warn(str(reason), stacklevel=2)
        finally:
            # Last: other threads go on when they read this.
            self.is_deferred = False


def _followed_by(act: Callable[[], None], spec: ModuleSpec | None) -> ModuleSpec | None:
    """Return the specification of a module, after whose code `act` is called."""
    loader = None if spec is None else spec.loader
    if loader is None:
        return spec
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        act()

    # The loader is this import's own. An object that wraps it would not be known to importlib.resources.
    loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


_IMPORT = _LateImport()


def defer() -> None:
    """Leave pandas out until something other than Arrow's first question imports it. For commands only."""
    if _IMPORT in sys.meta_path:
        return
    # The first entry: others would find the modules.
    sys.meta_path.insert(0, _IMPORT)
    if _ARROW in sys.modules:
        _IMPORT.ask()


def needed() -> None:
    """Import pandas if it was left out: before values with nanoseconds become Python objects, or for foreign code."""
    if _IMPORT.is_deferred:
        import pandas as pd  # noqa: F401 -- the import is what is wanted


def needed_for(type_: pa.DataType) -> None:
    """Import pandas if it was left out, and values of this type or within it may have nanoseconds."""
    if _IMPORT.is_deferred and "[ns" in str(type_):
        needed()
