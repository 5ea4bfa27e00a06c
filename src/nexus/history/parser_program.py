"""The program of the parser's process: reads what others sent, and writes JSON.

Parsers of strangers' bytes are where programs are attacked, and a few kilobytes can keep one busy for
minutes. So `parser_process` runs this in a sandbox, and it limits itself. It imports nothing of Nexus, to
start fast. Usage: parser_program.py CPU_MS MOST_CPU_MS MEMORY_BYTES IDLE_S SITE…
"""

import importlib.util
import json
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

READY: Final = b"ready\n"
# Decoding a large attachment takes its time on a slow machine; a small mail never does.
_CPU_MS_PER_MIB: Final = 50
READERS: Final = {
    "mail": ("read_mail", "lxml.etree"),
    "contact": ("read_card", "vobject"),
    "appointment": ("read_appointment", "icalendar"),
    "calendar": ("read_series", "recurring_ical_events"),
    "change": ("edit_series", "recurring_ical_events"),
}


def _load(kind: str) -> Callable[[bytes], Any]:
    """Return the function that reads a kind, with the library that it needs: importing that doesn't count."""
    function, library = READERS[kind]
    if "mime" not in sys.modules:
        path = Path(__file__).with_name("mime.py")
        spec = cast("Any", importlib.util.spec_from_file_location("mime", path))
        sys.modules["mime"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["mime"])
    importlib.import_module(library)
    return getattr(sys.modules["mime"], function)


def _answer(read: Callable[[bytes], Any], data: bytes) -> list[bytes]:
    """Return what is wrong, what was found as JSON, and then the data of its parts."""
    try:
        found = read(data)
        parts = [part.data for part in getattr(found, "parts", ())]
        if parts:
            found = replace(found, parts=tuple(replace(part, data=b"") for part in found.parts))
        told = found and json.dumps(asdict(found), default=bytes.decode).encode("utf-8", "replace")
        return [b"", told or b"null", *parts]
    except MemoryError:
        return [b"it takes too much"]
    except Exception as error:  # a parser meets whatever anybody ever sends; a message may quote it
        return [type(error).__name__.encode()]


def main(cpu_ms: int, most_cpu_ms: int, memory_bytes: int, idle_s: int) -> None:
    """Read until nothing comes any more. A line with the kind and the size is before what is to be read.

    Before each answer stands a line with the sizes of its pieces.
    """
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        with suppress(ValueError, OSError):  # not every system has all of them
            resource.setrlimit(kind, (most, most))
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(READY)
    answers.flush()
    while select.select([asked], [], [], idle_s)[0] and (line := asked.readline()):
        kind, size = line.decode().split()
        data, read = asked.read(int(size)), _load(kind)
        limit_ms = min(most_cpu_ms, cpu_ms + _CPU_MS_PER_MIB * (len(data) >> 20))
        # The kernel ends the process when this is used up, whatever code it is in.
        signal.setitimer(signal.ITIMER_PROF, limit_ms / 1000)
        answer = _answer(read, data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(b" ".join(b"%d" % len(each) for each in answer) + b"\n")
        answers.writelines(answer)
        answers.flush()


if __name__ == "__main__":
    sys.path += sys.argv[5:]
    main(*map(int, sys.argv[1:5]))
