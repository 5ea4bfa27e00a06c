"""Lines of a file that may hold lines of any length."""

import io
from collections.abc import Iterator
from typing import Final

LONGEST_LINE_BYTES: Final = 16 * 1024 * 1024


def lines(stream: io.BufferedReader, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Each line with the offset after it, from an offset on. A line that is too long is None."""
    if start:
        stream.seek(start)
    offset = start
    while line := stream.readline(LONGEST_LINE_BYTES):
        offset += len(line)
        if len(line) < LONGEST_LINE_BYTES or line.endswith(b"\n"):
            yield offset, line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE_BYTES)
            offset += len(line)
        yield offset, None
