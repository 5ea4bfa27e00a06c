"""The C library's heap."""

import ctypes
import platform
from pathlib import Path

import pytest

from nexus import heap


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its own books")
def test_what_was_freed_goes_back_to_the_system() -> None:
    library = ctypes.CDLL("libc.so.6")
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    # Small pieces, which glibc keeps when they are freed, under one that stays.
    pieces = [library.malloc(60_000) for _ in range(1_000)]
    for piece in pieces:
        ctypes.memset(piece, 1, 60_000)
    kept = library.malloc(60_000)
    for piece in pieces:
        library.free(piece)
    before = _resident_bytes()
    heap.give_back()
    given_back = before - _resident_bytes()
    library.free(kept)

    assert given_back > 30_000_000


def test_where_there_is_no_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    heap.give_back()
    heap.limit_arenas()
