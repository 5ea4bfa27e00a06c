"""Many homes on one host: 10,000 of them, 200 used at once, with a canary in each home that is used.

    python bench/hosting.py --quick
    python bench/hosting.py --homes 10000 --active 200 --minutes 10 --more 5000 --folder DIR --write

The host is the real program in its own process; the model is nexus.testing's server in this one, which also
sends the messages. In the idle parts nobody asks for anything.

So many people are there at once, each in a home of their own, then in another. Together they write as many
messages as they would in an hour, ten each: --messages 0 lets them write as fast as they are answered.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import httpx
from report import Figure, machine, progress, table, write_section

from nexus import hosted
from nexus.hosting import homes
from nexus.hosting.local import LocalRegistry
from nexus.testing import ModelRequest, ModelServer, Turn

_MIB = 1024 * 1024
_NEXUS = Path(sys.executable).with_name("nexus")
_WORD = re.compile(r"canary-(\d+)-[0-9a-f]{8}")
_MESSAGES_OF_A_VISIT = 3


def word(number: int) -> str:
    """What only one home knows."""
    return f"canary-{number}-{hashlib.sha256(str(number).encode()).hexdigest()[:8]}"


@dataclass
class Seen:
    """What happened, counted."""

    accepted_s: list[float] = field(default_factory=list[float])
    answered_s: list[float] = field(default_factory=list[float])
    open_s: list[float] = field(default_factory=list[float])
    """The first request to a home, which opens it."""
    reads_s: list[float] = field(default_factory=list[float])
    """A read of the home's status, in a home that is open."""
    errors: list[str] = field(default_factory=list[str])
    crossed: list[str] = field(default_factory=list[str])
    used: set[int] = field(default_factory=set[int])
    resident_mib: list[float] = field(default_factory=list[float])


def check(seen: Seen, number: int, text: str, where: str) -> None:
    """Note every word of another home."""
    foreign = {found[0] for found in _WORD.finditer(text) if int(found[1]) != number}
    if foreign:
        seen.crossed.append(f"home {number}, {where}: {sorted(foreign)[:3]}")


def make(root: Path, template: Path, first: int, count: int) -> dict[int, str]:
    """Homes as `nexus host add` makes them, by copying the first; returns their tokens."""
    tokens: dict[int, str] = {}
    with LocalRegistry(root) as registry:
        for number in range(first, first + count):
            name = f"home-{number}"
            if number == 0:
                made = homes.add(registry, name, template)
            else:
                made = registry.add(name)
                home = registry.home(name)
                shutil.copytree(registry.home("home-0").root, home.root)
                home.token_file.write_text(secrets.token_urlsafe(32))
                hosted.settle(home, hosted.Place.of(root, made.id))
            tokens[number] = registry.new_token(made.id, "full")
            if (number + 1) % 1000 == 0:
                progress(f"{number + 1:,} homes made")
    return tokens


class Host:
    """The real program."""

    def __init__(self, root: Path, *options: str) -> None:
        command = [str(_NEXUS), "host", "serve", "--root", str(root), "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]

    @property
    def resident_mib(self) -> float:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB

    @property
    def processor_s(self) -> float:
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    @property
    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def idle(self, seconds: float) -> tuple[float, float]:
        """Resident memory, and processor time a second while nothing is asked."""
        before = self.processor_s
        time.sleep(seconds)
        return self.resident_mib, (self.processor_s - before) / seconds

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=120)


def answer(request: ModelRequest, seen: Seen) -> Turn:
    text = json.dumps(request.json["messages"])
    asked = re.findall(r"I am home (\d+)\.", text)
    if asked:
        check(seen, int(asked[-1]), json.dumps(request.json), "what its model was told")
    return Turn(f"Understood, home {asked[-1] if asked else 'unknown'}.")


async def visit(
    host: Host,
    client: httpx.AsyncClient,
    number: int,
    token: str,
    seen: Seen,
    start: float = 0.0,
    visit_s: float = 0.0,
) -> None:
    """Somebody talks to their home for a while, with a pause after each answer if there is time."""
    headers = {"host": f"home-{number}.localhost:{host.port}", "authorization": f"Bearer {token}"}

    async def ask(method: str, path: str, **more: object) -> httpx.Response | None:
        try:
            found = await client.request(method, path, headers=headers, **more)  # pyright: ignore[reportArgumentType]
        except httpx.HTTPError as error:
            seen.errors.append(f"{path}: {type(error).__name__}")
            return None
        if found.status_code >= 400:
            seen.errors.append(f"{path}: {found.status_code} {found.text[:80]}")
            return None
        check(seen, number, found.text, path)
        return found

    if number not in seen.used:
        began = time.perf_counter()
        fact = {"fact": f"The canary of this household is called {word(number)}."}
        if await ask("POST", "/api/memory/facts", json=fact) is not None:
            seen.open_s.append(time.perf_counter() - began)
            seen.used.add(number)
    for at in range(_MESSAGES_OF_A_VISIT):
        await asyncio.sleep(max(0.0, start + at * visit_s / _MESSAGES_OF_A_VISIT - time.monotonic()))
        began = time.perf_counter()
        said = {"text": f"I am home {number}. How is the canary, for the {at + 1}. time?"}
        accepted = await ask("POST", "/api/messages", json=said)
        if accepted is None:
            continue
        seen.accepted_s.append(time.perf_counter() - began)
        result = await ask("GET", f"/api/executions/{accepted.json()['execution_id']}/result")
        if result is not None:
            seen.answered_s.append(time.perf_counter() - began)
            if f"Understood, home {number}." not in result.text:
                seen.errors.append(f"home {number} was answered {result.text[:80]}")
        began = time.perf_counter()
        if await ask("GET", "/api/sessions") is not None:
            seen.reads_s.append(time.perf_counter() - began)
    own = await ask("GET", "/api/recall", params={"text": "What is the canary of this household called?"})
    if own is not None and word(number) not in own.text:
        seen.errors.append(f"home {number} did not recall its own canary")


async def load(
    host: Host, tokens: dict[int, str], active: int, minutes: float, messages: int, seen: Seen
) -> float:
    """So many people at once, each in a home of their own, one home after the other."""
    # How long a visit lasts, if it is answered in time; the first ones begin spread over that.
    visit_s = minutes * 60 * active * _MESSAGES_OF_A_VISIT / messages if messages else 0.0
    chance = random.Random(1)
    waiting = list(tokens)
    chance.shuffle(waiting)
    until = time.monotonic() + minutes * 60
    began = time.monotonic()
    limits = httpx.Limits(max_connections=active + 10, max_keepalive_connections=active)

    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{host.port}", timeout=httpx.Timeout(300), limits=limits
    ) as client:

        async def person(at: int) -> None:
            start = began + at * visit_s / active
            while (start := max(start, time.monotonic())) < until and waiting:
                await asyncio.sleep(start - time.monotonic())
                number = waiting.pop()
                await visit(host, client, number, tokens[number], seen, start, visit_s)
                waiting.insert(0, number)
                start += visit_s

        async def watch() -> None:
            while True:
                seen.resident_mib.append(host.resident_mib)
                await asyncio.sleep(1)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(person(at) for at in range(active)))
        watching.cancel()
    return time.monotonic() - began


def p(values: list[float], share: int) -> float:
    return quantiles(values, n=100)[share - 1] if len(values) > 1 else (values or [0.0])[0]


def measure(root: Path, given: argparse.Namespace) -> list[Figure]:
    seen = Seen()
    with ModelServer() as server:
        server.always(lambda request: answer(request, seen))
        settings = root.parent / "home.toml"
        settings.write_text(
            f'[models]\nmanager = ["test/large"]\nwriter = "none"\n\n[providers.test]\nkind = "anthropic"\n'
            f'base_url = "{server.url}"\nmax_retries = 0\n'
        )
        began = time.perf_counter()
        tokens = make(root, settings, 0, given.homes)
        making_s = time.perf_counter() - began
        host = Host(root, "--homes", str(given.open), "--idle-s", str(given.idle_s))
        try:
            time.sleep(given.settle_s)
            fresh_mib, fresh_share = host.idle(given.settle_s)
            progress(f"idle with {given.homes:,} homes: {fresh_mib:.0f} MiB, {fresh_share:.3f}")
            make(root, settings, given.homes, given.more)
            time.sleep(given.settle_s)
            more_mib, more_share = host.idle(given.settle_s)
            progress(f"with {given.more:,} more: {more_mib:.0f} MiB, {more_share:.3f}")
            used_before = host.processor_s
            took_s = asyncio.run(load(host, tokens, given.active, given.minutes, given.messages, seen))
            load_s = host.processor_s - used_before
            progress(f"{len(seen.answered_s):,} answers from {len(seen.used):,} homes in {took_s:.0f} s")
            threads, files = host.threads, host.files
            time.sleep(given.idle_s + given.settle_s)
            rested_mib, rested_share = host.idle(given.settle_s)
            progress(f"idle afterwards: {rested_mib:.0f} MiB, {rested_share:.3f}, {host.files} files")
            rested_files = host.files
        finally:
            host.stop()
    for text in [*seen.errors[:20], *seen.crossed[:5]]:
        progress(text)
    minutes = took_s / 60
    return [
        Figure("homes, used at once", f"{given.homes:,}, {given.active}", "10,000, 200"),
        Figure(
            "homes used in all, messages answered",
            f"{len(seen.used):,}, {len(seen.answered_s):,} in {minutes:.1f} min",
            f"{given.messages:,} in {given.minutes:g} min" if given.messages else "",
            len(seen.answered_s) >= given.messages if given.messages else None,
        ),
        Figure("errors", f"{len(seen.errors)}", "0", not seen.errors),
        Figure("reads of another home's word", f"{len(seen.crossed)}", "0", not seen.crossed),
        Figure(
            "resident memory, highest",
            f"{max(seen.resident_mib):,.0f} MiB",
            "4,096 MiB",
            max(seen.resident_mib) <= 4096,
        ),
        Figure("threads, open files under load", f"{threads}, {files}"),
        Figure(
            "processor time of the host, a message", f"{1000 * load_s / max(1, len(seen.answered_s)):.0f} ms"
        ),
        Figure(
            "first request to a home, which opens it: p50, p95",
            f"{p(seen.open_s, 50):.2f}, {p(seen.open_s, 95):.2f} s",
        ),
        Figure(
            "a read in an open home: p50, p95",
            f"{1000 * p(seen.reads_s, 50):.0f}, {1000 * p(seen.reads_s, 95):.0f} ms",
        ),
        Figure(
            "a message until it is accepted: p50, p95",
            f"{p(seen.accepted_s, 50):.2f}, {p(seen.accepted_s, 95):.2f} s",
        ),
        Figure(
            "a message until its answer: p50, p95",
            f"{p(seen.answered_s, 50):.2f}, {p(seen.answered_s, 95):.2f} s",
        ),
        Figure(
            "idle, no home open yet: memory, processor",
            f"{fresh_mib:.0f} MiB, {100 * fresh_share:.1f}% of a core",
        ),
        Figure(
            f"the same with {given.more:,} more homes",
            f"{more_mib:.0f} MiB, {100 * more_share:.1f}% of a core",
            "no change",
            abs(more_mib - fresh_mib) < 8 and abs(more_share - fresh_share) < 0.02,
        ),
        Figure(
            f"{given.idle_s + given.settle_s:g} s after the load: memory, processor",
            f"{rested_mib:.0f} MiB, {100 * rested_share:.1f}% of a core, {rested_files} files",
        ),
        Figure("making a home by copying one", f"{1000 * making_s / given.homes:.1f} ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--homes", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--messages", type=int, default=2_000, help="0: as many as are answered.")
    parser.add_argument("--more", type=int, default=5_000)
    parser.add_argument("--open", type=int, default=256)
    parser.add_argument("--idle-s", type=float, default=60.0, help="As the program does by itself.")
    parser.add_argument("--settle-s", type=float, default=20.0)
    parser.add_argument("--folder", type=Path, help="Where the homes are made, 1 MiB each.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true", help="Write the section of RESULTS.md.")
    given = parser.parse_args()
    if given.quick:
        given.homes, given.active, given.minutes, given.more, given.open = 16, 4, 0.1, 8, 5
        given.idle_s, given.settle_s, given.messages = 2.0, 2.0, 0
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="nexus-hosting-") as folder:
        figures = measure(Path(folder) / "host", given)
    print(table(figures))
    if given.write:
        asked = (
            f"--homes {given.homes} --active {given.active} --minutes {given.minutes:g}"
            f" --messages {given.messages} --more {given.more}"
        )
        about = f"`python bench/hosting.py {asked}`. {machine()}"
        write_section("hosting", f"## Many homes on one host\n\n{about}\n\n{table(figures)}")


if __name__ == "__main__":
    main()
