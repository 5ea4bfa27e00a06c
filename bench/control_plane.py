"""What a fleet's Postgres spends on a message, on a visit and on a host: its processor time, measured.

    python bench/control_plane.py [--quick] [--write]

A fresh cluster on this machine, with the program's own statements. What is measured is the processor time of
all of its processes, which a busy machine changes little, and not how long a statement takes.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from report import Figure, machine, progress, table, write_section

from nexus.hosting.fleet.records import Load
from nexus.hosting.fleet.registry import FleetRegistry

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from contract.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable

_LEASE_S = 3600.0
_LOAD = Load(open_homes=200, resident_mib=1500, cpu_share=0.5, disk_free_mib=100_000)


def processor_s(folder: Path) -> float:
    """Of the cluster's processes, also of those that have ended."""
    first = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in (first, *children)]
    ticks = sum(int(each[11]) + int(each[12]) for each in fields) + int(fields[0][13]) + int(fields[0][14])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(homes: int, times: int) -> list[Figure]:
    postgres = Postgres()
    postgres.start()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            FleetRegistry(Path(folder), postgres.new_database(), "one") as registry,
        ):
            assert registry.join(url="http://one", folder_id="one", lease_s=_LEASE_S)
            ids = [registry.add(f"home-{number}").id for number in range(homes)]
            progress(f"{homes:,} homes")
            epochs: dict[str, int] = {}

            def visit(number: int) -> None:
                home = ids[number % homes]
                registry.get(home)
                held = registry.acquire(home, epochs.get(home))
                assert held is not None
                epochs[home] = held.epoch
                registry.note_opened(home, keeps_open=False)
                registry.note_copied(home, held.epoch)
                registry.note_closed(home)

            def look(_: int) -> None:
                registry.find_moving(4)
                registry.find_orphans(4)

            works: dict[str, Callable[[int], object]] = {
                "a visit: acquiring, settling and closing a home": visit,
                "a message: looking up who owns its home": lambda number: registry.owner_of(
                    ids[number % homes]
                ),
                "renewing a lease": lambda _: registry.renew(_LEASE_S, _LOAD),
                "looking for homes of dead hosts, and for homes to hand over": look,
            }
            figures = [Figure("homes", f"{homes:,}")]
            for what, work in works.items():
                before_s = processor_s(postgres.folder)
                for number in range(times):
                    work(number)
                spent_ms = 1000 * (processor_s(postgres.folder) - before_s) / times
                figures.append(Figure(f"{what}: processor ms of Postgres", f"{spent_ms:.2f}"))
                progress(f"{what}: {spent_ms:.2f} ms")
            return figures
    finally:
        postgres.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="Write the section of RESULTS.md.")
    given = parser.parse_args()
    found = measure(20, 20) if given.quick else measure(200, 300)
    print(table(found))
    if given.write:
        about = f"`python bench/control_plane.py`: {machine()}"
        write_section("control plane", f"## A fleet's Postgres\n\n{about}\n\n{table(found)}")


if __name__ == "__main__":
    main()
