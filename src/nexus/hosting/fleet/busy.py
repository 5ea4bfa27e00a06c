"""How busy this host is, for whoever places homes."""

import os
import shutil
import time
from pathlib import Path

from nexus.hosting.fleet.records import Load
from nexus.hosting.limits import MIB


class Busy:
    """Measures between one heartbeat and the next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._at = time.monotonic()
        self._used_s = time.process_time()

    def load(self, open_homes: int) -> Load:
        now, used_s = time.monotonic(), time.process_time()
        spent = (used_s - self._used_s) / max(now - self._at, 0.001) / (os.cpu_count() or 1)
        self._at, self._used_s = now, used_s
        return Load(
            open_homes=open_homes,
            resident_mib=int(resident_mib()),
            cpu_share=round(min(spent, 1.0), 3),
            disk_free_mib=shutil.disk_usage(self._root).free // MIB,
        )


def resident_mib() -> float:
    pages = Path("/proc/self/statm").read_bytes().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB
