"""The process's memory."""

import ctypes
import gc
import platform
import subprocess
import sys
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


_HOLES = """
import ctypes, sys
from pathlib import Path
from nexus import heap
if sys.argv[1] == "bound":
    heap.limit()
library = ctypes.CDLL("libc.so.6")
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
def taken(size):
    block = library.malloc(size)
    ctypes.memset(block, 1, size)
    return block
# A block that is freed once teaches glibc to take others of its size from the heap.
library.free(taken(8_000_000))
large = [(taken(2_000_000), taken(1_000))[0] for _ in range(40)]
for block in large:
    library.free(block)
print(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its own books")
def test_large_blocks_leave_no_holes_in_a_heap_that_is_bound() -> None:
    def resident(how: str) -> int:
        words = [sys.executable, "-c", _HOLES, how]
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    assert resident("unbound") - resident("bound") > 60_000_000


def test_where_there_is_no_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    heap.give_back()
    heap.limit()


def test_nothing_that_is_imported_is_searched_for_garbage() -> None:
    before = gc.get_freeze_count()
    try:
        with heap.import_libraries():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
