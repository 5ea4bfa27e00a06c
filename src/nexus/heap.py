"""The memory of the process: how much of what was freed it keeps (with glibc), and garbage collection."""

import ctypes
import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1
_ARENAS: Final = 2
# From this size on, a block is its own mapping, which the system gets back as soon as it is freed. Without a
# fixed size, glibc raises it up to 32 MiB, and what a model computes with then leaves holes in the heap.
_OWN_MAPPING_BYTES: Final = 256 * 1024
_KEPT_ON_TOP_BYTES: Final = 1024 * 1024


def give_back() -> None:
    """Give memory that was freed back to the system. Takes some milliseconds."""
    if (library := _load_glibc()) is not None:
        library.malloc_trim(0)


def limit() -> None:
    """Keep little of what is freed, and let threads share few heaps: each would get, and keep, its own.

    Call it before threads are started.
    """
    if (library := _load_glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_ON_TOP_BYTES)


@contextmanager
def import_libraries() -> Generator[None]:
    """Search for no garbage while libraries are imported, and never again among what they made."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _load_glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None
