"""The C library's heap: how much of what was freed the process keeps. Without glibc nothing happens."""

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2


def give_back() -> None:
    """Give memory that was freed back to the system. Takes some milliseconds."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def limit_arenas() -> None:
    """Let threads share few heaps. Each thread would get its own, and keep what it once took.

    Call it before threads are started.
    """
    if (library := _glibc()) is not None:
        library.mallopt(_M_ARENA_MAX, _ARENAS)


def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None
