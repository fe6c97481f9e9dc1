"""PyArrow, loaded when it is first used.

A Python worker of Spark reads Penstock's modules before it knows what it will do, and loading
PyArrow takes longer than all of them together. So executor-side modules write
``from penstock import arrow as pa``, and ``pa.array`` loads the library on its first call. PyArrow
has no type stubs: everything that comes from here is ``Any``.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("pyarrow"), name)
