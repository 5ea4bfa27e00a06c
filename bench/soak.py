"""A host under a steady load for a long time: does anything grow that shouldn't?

    python bench/soak.py --minutes 60 --write
    python bench/soak.py                     ten minutes
    python bench/soak.py --quick             about a minute; checks bounds, not growth

The host is the real program with copies of its homes. People visit home after home at a steady rate, so homes
open and close all the time. While too many answers are outstanding, nobody sends: a slow machine is not to be
mistaken for a queue that grows. Growth is the slope of a line through the second half, times its length.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, linear_regression

import httpx
from copies import damaged
from hosting import Host, make
from report import Figure, machine, progress, table, write_section
from soak_plot import plot

from nexus.engine import Settings, records
from nexus.engine.database import Database
from nexus.home import Home
from nexus.hosted import Place, place
from nexus.testing import ModelServer, Turn

_MIB = 1024 * 1024
_MESSAGES_OF_A_VISIT = 3
_OUTSTANDING = 16
_LOOK_S = 0.5
_RESTED_FILES = 100
_ASSET = Path(__file__).parents[1] / "docs" / "assets" / "soak.png"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One thing that is sampled: what it may reach, and by how much it may grow in the second half."""

    name: str
    unit: str
    bound: float
    growth: float
    """In its unit; where it is less than a tenth of the mean, that tenth."""

    def allowed(self, values: Sequence[float]) -> float:
        return max(self.growth, fmean(values) / 10)


SERIES = (
    Series(name="resident memory of the host", unit="MiB", bound=2048, growth=16),
    Series(name="resident memory of Litestream", unit="MiB", bound=1024, growth=16),
    Series(name="open files, both", unit="", bound=4000, growth=20),
    Series(name="write-ahead logs, all", unit="MiB", bound=256, growth=8),
    Series(name="copy behind, longest", unit="s", bound=600, growth=1),
    Series(name="queue", unit="", bound=200, growth=5),
)


@dataclass
class Soaked:
    """What was sampled, and what people saw."""

    times_s: list[float] = field(default_factory=list[float])
    values: dict[str, list[float]] = field(default_factory=lambda: {each.name: [] for each in SERIES})
    sent: int = 0
    answered: int = 0
    errors: list[str] = field(default_factory=list[str])
    answers_s: list[float] = field(default_factory=list[float])

    def growth(self, series: Series) -> float:
        """From the middle to the end, on the line through the samples between."""
        middle = len(self.times_s) // 2
        times, values = self.times_s[middle:], self.values[series.name][middle:]
        return linear_regression(times, values).slope * (times[-1] - times[0])


class Lag:
    """How long the oldest write that isn't copied yet has been there, as seen by looking often."""

    def __init__(self, root: Path, copies: Path) -> None:
        self._root, self._copies = root, copies
        self.pending: dict[Path, tuple[float, float]] = {}
        self.longest_s = 0.0

    def look(self) -> None:
        now = time.time()
        found: dict[Path, tuple[float, float]] = {}
        for folder in (self._root / "homes").iterdir():
            for log in (folder / "data").glob("*.db-wal"):
                written_s = _modified_s(log)
                copied_s = self._copied_s(folder, log.name.removesuffix(".db-wal"))
                pending_s, since_s = self.pending.get(log, (written_s, now))
                if copied_s < pending_s:
                    found[log] = pending_s, since_s
                elif copied_s < written_s:
                    found[log] = written_s, now
        self.pending = found
        self.longest_s = max(self.longest_s, *(now - since_s for _, since_s in found.values()), 0.0)

    def taken_s(self) -> float:
        """The longest since the last call."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def _copied_s(self, folder: Path, ledger: str) -> float:
        hosted = place(Home(folder))
        if hosted is None:
            return 0.0
        # A piece that is added changes its folder's time. In a fleet there are epochs between.
        newest = (self._copies / hosted.id).glob(f"**/{ledger}/ltx/0")
        return max(map(_modified_s, newest), default=0.0)


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class Sampler:
    """Looks at the host from outside, as an operator would."""

    def __init__(self, host: Host, root: Path, copies: Path) -> None:
        self._host, self._root = host, root
        self._lag = Lag(root, copies)
        self._engine = Database(Settings(database=Place.of(root, "").engine))
        self._began_s = time.monotonic()

    async def run(self, seen: Soaked, sample_s: float) -> None:
        while True:
            until_s = time.monotonic() + sample_s
            while time.monotonic() < until_s:
                await asyncio.to_thread(self._lag.look)
                await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(self._sample, seen)

    def _sample(self, seen: Soaked) -> None:
        copier = self._copier()
        logs = (*self._root.glob("*.db-wal"), *self._root.glob("homes/*/data/*.db-wal"))
        found = (
            self._host.resident_mib,
            _resident_mib(copier),
            self._host.files + _files(copier),
            sum(map(_size_bytes, logs)) / _MIB,
            self._lag.taken_s(),
            self._queued(),
        )
        seen.times_s.append(time.monotonic() - self._began_s)
        for each, value in zip(SERIES, found, strict=True):
            seen.values[each.name].append(value)

    def _copier(self) -> int:
        """Litestream's process."""
        pid = self._host.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "litestream":
                return int(child)
        return 0

    def _queued(self) -> int:
        return sum(lane["queued"] for lane in records.queues(self._engine))


async def people(host: Host, tokens: dict[int, str], rate_per_s: float, minutes: float, seen: Soaked) -> None:
    """Visit home after home."""
    room = asyncio.Semaphore(_OUTSTANDING)
    until_s = time.monotonic() + minutes * 60
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{host.port}", timeout=httpx.Timeout(900)) as client,
        asyncio.TaskGroup() as asking,
    ):
        for number in range(sys.maxsize):
            if time.monotonic() >= until_s:
                return
            home = number // _MESSAGES_OF_A_VISIT % len(tokens)
            await room.acquire()
            asked = asking.create_task(ask(client, host.port, home, tokens[home], seen))
            asked.add_done_callback(lambda _: room.release())
            await asyncio.sleep(1 / rate_per_s)


async def ask(client: httpx.AsyncClient, port: int, home: int, token: str, seen: Soaked) -> None:
    headers = {"host": f"home-{home}.localhost:{port}", "authorization": f"Bearer {token}"}
    began = time.monotonic()
    seen.sent += 1
    try:
        said = {"text": f"Message {seen.sent}: what did we say about the garden and the gate?"}
        accepted = await client.post("/api/messages", json=said, headers=headers)
        accepted.raise_for_status()
        path = f"/api/executions/{accepted.json()['execution_id']}/result"
        (await client.get(path, headers=headers)).raise_for_status()
    except httpx.HTTPError as error:
        seen.errors.append(f"home {home}: {type(error).__name__} {error}")
        return
    seen.answered += 1
    seen.answers_s.append(time.monotonic() - began)


async def soak(
    host: Host, root: Path, copies: Path, tokens: dict[int, str], given: argparse.Namespace
) -> Soaked:
    seen = Soaked()
    sampling = asyncio.create_task(Sampler(host, root, copies).run(seen, given.sample_s))
    await people(host, tokens, given.rate_per_s, given.minutes, seen)
    sampling.cancel()
    return seen


def figures(seen: Soaked, *, is_long: bool) -> list[Figure]:
    found = [
        Figure(
            "messages sent, answered", f"{seen.sent:,}, {seen.answered:,}", "all", seen.sent == seen.answered
        ),
        Figure("errors", f"{len(seen.errors)}", "0", not seen.errors),
        Figure("a message until its answer, mean", f"{fmean(seen.answers_s or [0]):.2f} s"),
    ]
    for each in SERIES:
        values = seen.values[each.name]
        highest = max(values)
        what = f"{each.name}: highest"
        found.append(
            Figure(what, _with(highest, each), f"≤ {_with(each.bound, each)}", highest <= each.bound)
        )
        if is_long:
            grown, allowed = seen.growth(each), each.allowed(values[len(values) // 2 :])
            told = f"{grown:+.1f} {each.unit}".rstrip()
            found.append(Figure(f"{each.name}: growth", told, f"≤ {_with(allowed, each)}", grown <= allowed))
    return found


def _at_most(what: str, value: int, most: int) -> Figure:
    return Figure(what, f"{value}", f"≤ {most}", value <= most)


def _with(value: float, series: Series) -> str:
    return f"{value:,.1f} {series.unit}".rstrip() if series.unit else f"{value:,.0f}"


def _resident_mib(pid: int) -> float:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0.0  # it is being started again
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB


def _files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def measure(folder: Path, given: argparse.Namespace) -> tuple[Soaked, list[Figure]]:
    root, copies = folder / "host", folder / "copies"
    with ModelServer() as server:
        server.always(lambda _: Turn("We said that the gate is broken and that the garden waits for spring."))
        settings = folder / "home.toml"
        settings.write_text(
            f'[models]\nmanager = ["test/large"]\nwriter = "none"\n\n[providers.test]\nkind = "anthropic"\n'
            f'base_url = "{server.url}"\nmax_retries = 0\n'
        )
        tokens = make(root, settings, 0, given.homes)
        options = ["--homes", str(given.open), "--idle-s", str(given.idle_s), "--copies", f"file://{copies}"]
        host = Host(root, *options)
        try:
            seen = asyncio.run(soak(host, root, copies, tokens, given))
            until_s = time.monotonic() + given.idle_s + 60
            while host.files > _RESTED_FILES and time.monotonic() < until_s:
                time.sleep(1)
            rested_files = host.files
            lag, until_s = Lag(root, copies), time.monotonic() + 60
            lag.look()
            while lag.pending and time.monotonic() < until_s:
                time.sleep(1)
                lag.look()
        finally:
            host.stop()
    for text in seen.errors[:5]:
        progress(text)
    found = figures(seen, is_long=not given.quick)
    found.append(_at_most("open files of the host when all homes are closed", rested_files, _RESTED_FILES))
    found.append(_at_most("databases whose copy is not complete then", len(lag.pending), 0))
    found.append(_at_most("databases whose copy is damaged", len(damaged(copies)), 0))
    return seen, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate-per-s", type=float, default=0.5)
    parser.add_argument("--homes", type=int, default=12)
    parser.add_argument("--open", type=int, default=6)
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--sample-s", type=float, default=5.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="Write the section of RESULTS.md and the plot.")
    given = parser.parse_args()
    if given.write and find_spec("matplotlib") is None:
        parser.error("--write needs matplotlib for the plot")
    if given.quick:
        given.minutes, given.homes, given.open, given.idle_s, given.sample_s = 0.8, 6, 3, 5.0, 2.0
    with tempfile.TemporaryDirectory(prefix="nexus-soak-") as folder:
        seen, found = measure(Path(folder), given)
    print(table(found))
    if given.write:
        about = (
            f"`python bench/soak.py --minutes {given.minutes:g} --rate-per-s {given.rate_per_s:g}`, "
            f"{given.homes} homes, of which {given.open} stay open. {machine()} "
            f"Growth is from the middle to the end. Plotted in `docs/assets/{_ASSET.name}`."
        )
        plot(
            seen.times_s,
            {f"{each.name}, {each.unit}".rstrip(", "): seen.values[each.name] for each in SERIES},
            _ASSET,
        )
        write_section("soak", f"## A host for {given.minutes:g} minutes\n\n{about}\n\n{table(found)}")
    return 0 if all(each.met is not False for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
