"""Three hosts under steady messages, and in each round something is struck down.

    python bench/fleet.py --quick
    python bench/fleet.py --rounds 20 --seed 1 --write

A round kills a host with SIGKILL, cuts one off for 30 seconds, restarts Postgres, or kills a host and wipes
its disk. Afterwards every message that was accepted must have been answered exactly once in the final ledgers
of its home; what a wiped disk took is counted, and may be no older than the copy is behind. Messages go
through random hosts, and are repeated with the same key until a host accepts them.
"""

import argparse
import asyncio
import json
import math
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import httpx
from copies import damaged, problems
from fleet_world import HostProcess, Namespaces, World
from report import Figure, machine, percentile, progress, table, write_section

from nexus import config
from nexus.broker import invariants
from nexus.engine.settings import Settings
from nexus.home import LEDGERS, Home
from nexus.hosting.fleet.registry import FleetRegistry, connect
from nexus.testing import ModelRequest, Pace, Turn

_ASKED = re.compile(r"Question (\d+)\.")
_HOSTS = 3
_PARTITION_S = 30.0
_ACCEPTED_WITHIN_S = 120.0
_ANSWERED_WITHIN_S = 180.0
# Litestream copies every second; opening, a busy machine and its own delay come on top.
_COPY_BEHIND_S = 3.0
_SESSIONS = 2
_THINKS_MS = 300


@dataclass(eq=False)
class Message:
    """Something said to a home."""

    number: int
    home: str
    key: str = ""
    began_at: float = 0.0
    accepted_at: float | None = None
    host: str = ""
    """That the home was on when it was accepted."""
    tries: int = 0


@dataclass
class Round:
    """What a round found."""

    number: int
    strike: str
    struck: str = ""
    struck_at: float = 0.0
    messages: list[Message] = field(default_factory=list[Message])
    takeovers_s: list[float] = field(default_factory=list[float])
    """From the strike until a home of the struck host had a new owner."""
    served_s: list[float] = field(default_factory=list[float])
    """From the strike until such a home accepted its next message."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """What clients saw before a message was accepted."""
    lost: int = 0
    oldest_lost_s: float = 0.0
    wrong: list[str] = field(default_factory=list[str])
    took_s: float = 0.0


class Fleet:
    """The world, its homes, and the messages to them."""

    def __init__(self, world: World, homes: int, rate_per_s: float, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self._rate_per_s = rate_per_s
        self.registry = FleetRegistry(Path(), world.own_fleet_url)
        self.tokens: dict[str, str] = {}
        self._homes = homes
        self._asked = 0
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(30, connect=2))
        self.earlier: list[Message] = []

    def add_homes(self) -> None:
        settings = (
            '[models]\nmanager = ["test/large"]\nwriter = "none"\n\n[providers.test]\nkind = "anthropic"\n'
            f'base_url = "{self.world.model_url}"\nmax_retries = 3\n'
        )
        for number in range(self._homes):
            made = self.registry.add(f"home-{number}", settings)
            self.tokens[made.name] = self.registry.new_token(made.id, "full")

    def owners(self) -> dict[str, str]:
        return {each.name: each.host or "" for each in self.registry.list_homes("", 1_000)}

    def new_message(self, home: str | None = None) -> Message:
        self._asked += 1
        name = home or self.chance.choice(list(self.tokens))
        return Message(number=self._asked, home=name, key=f"key-{self._asked}", began_at=time.time())

    async def load(self, found: Round, until: asyncio.Event) -> None:
        """Messages at a steady rate, each until it is accepted."""
        saying: set[asyncio.Task[None]] = set()
        while not until.is_set():
            message = self.new_message()
            found.messages.append(message)
            task = asyncio.create_task(self._say(message, found))
            saying.add(task)
            task.add_done_callback(saying.discard)
            await asyncio.sleep(self.chance.expovariate(self._rate_per_s))
        await asyncio.gather(*saying)

    async def _say(self, message: Message, found: Round) -> None:
        until = time.monotonic() + _ACCEPTED_WITHIN_S
        while time.monotonic() < until:
            host = self.chance.choice(self.world.hosts)
            message.tries += 1
            try:
                answer = await self._client.send(asking(host, message, self.tokens[message.home]))
            except httpx.HTTPError as error:
                found.failures[type(error).__name__] += 1
            else:
                if answer.status_code == 202:
                    message.accepted_at = time.time()
                    return
                found.failures[str(answer.status_code)] += 1
                if answer.status_code < 500 and answer.status_code != 429:
                    found.wrong.append(f"message {message.number}: {answer.status_code} {answer.text[:200]}")
                    return
            await asyncio.sleep(0.3)
        found.wrong.append(f"message {message.number} to {message.home} was not accepted")

    async def warm_up(self) -> None:
        """Open every home."""
        found = Round(number=0, strike="none")
        found.messages = [self.new_message(name) for name in self.tokens]
        await asyncio.gather(*(self._say(each, found) for each in found.messages))
        await settled(self, found)
        if found.wrong:
            raise RuntimeError(f"the fleet does not work: {found.wrong}")

    async def close(self) -> None:
        await self._client.aclose()


def asking(host: HostProcess, message: Message, token: str) -> httpx.Request:
    port = host.url.rpartition(":")[2]
    return httpx.Request(
        "POST",
        f"{host.url}/api/messages",
        headers={
            "host": f"{message.home}.localhost:{port}",
            "authorization": f"Bearer {token}",
            "idempotency-key": message.key,
        },
        json={"text": f"Question {message.number}.", "session": f"s{message.number % _SESSIONS}"},
    )


def answer(request: ModelRequest) -> Turn:
    asked = _ASKED.findall(json.dumps(request.json["messages"]))
    return Turn(f"Answer {asked[-1]}." if asked else "Nothing was asked.", pace=Pace(before_ms=_THINKS_MS))


# Strikes


async def kill(fleet: Fleet, found: Round) -> None:
    host = struck(fleet, found)
    await asyncio.to_thread(host.kill)
    await asyncio.sleep(fleet.chance.uniform(3, 2 * fleet.world.lease_s))
    await asyncio.to_thread(host.start)


async def wipe(fleet: Fleet, found: Round) -> None:
    host = struck(fleet, found)
    await asyncio.to_thread(host.kill)
    await asyncio.to_thread(host.wipe)
    await asyncio.sleep(fleet.chance.uniform(3, 2 * fleet.world.lease_s))
    await asyncio.to_thread(host.start)


async def restart_postgres(fleet: Fleet, found: Round) -> None:
    found.struck_at = time.time()
    await asyncio.to_thread(fleet.world.restart_postgres, fleet.chance.uniform(0, 5))


async def partition(fleet: Fleet, found: Round) -> None:
    """Cut a host off, and go on talking to it from inside."""
    host = struck(fleet, found)
    network = fleet.world.network
    mine = [name for name, owner in fleet.owners().items() if owner == host.name]
    await asyncio.to_thread(network.cut, host.number, host)
    stop = threading.Event()
    inside: threading.Thread | None = None
    if isinstance(network, Namespaces) and mine:
        inside = network.inside(host.number, lambda: talk_inside(fleet, found, host, mine, stop))
    await asyncio.sleep(_PARTITION_S)
    stop.set()
    if inside is not None:
        await asyncio.to_thread(inside.join)
    found.wrong += await asyncio.to_thread(written_when_fenced, fleet, host)
    await asyncio.to_thread(network.join, host.number, host)


def talk_inside(
    fleet: Fleet, found: Round, host: HostProcess, homes: list[str], stop: threading.Event
) -> None:
    """A client on the wrong side. What it was told is accepted counts like everything else."""
    with httpx.Client(timeout=10) as client:
        while not stop.wait(0.5):
            message = fleet.new_message(random.choice(homes))
            with suppress(httpx.HTTPError):
                given = asking(host, message, fleet.tokens[message.home])
                if client.send(given).status_code == 202:
                    message.accepted_at = time.time()
                    found.messages.append(message)


def written_when_fenced(fleet: Fleet, host: HostProcess) -> list[str]:
    """Events that a host recorded in a home after another one had it."""
    wrong: list[str] = []
    since = began_at(fleet)
    for name, owner in fleet.owners().items():
        file = Home(host.root / "homes" / name).ledger("events")
        if owner in ("", host.name) or not file.exists():
            continue
        moment = datetime.fromtimestamp(since[name], UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        late = rows(file, "SELECT count(*) FROM events WHERE created_at > ?", moment)[0][0]
        if late:
            wrong.append(f"{host.name} wrote {late} events in {name} after {owner} had it")
    return wrong


STRIKES: dict[str, Callable[[Fleet, Round], Awaitable[None]]] = {
    "kill -9": kill,
    "partition": partition,
    "Postgres restart": restart_postgres,
    "kill -9, disk wiped": wipe,
}


def struck(fleet: Fleet, found: Round) -> HostProcess:
    """A host with homes, if there is one."""
    owned = Counter(fleet.owners().values())
    able = [host for host in fleet.world.hosts if owned[host.name]] or fleet.world.hosts
    host = fleet.chance.choice(able)
    found.struck, found.struck_at = host.name, time.time()
    return host


# What must hold afterwards


def began_at(fleet: Fleet) -> dict[str, float]:
    """When the present owner of each home took it, by Postgres's clock, which is this machine's."""
    with connect(fleet.world.own_fleet_url, 1).begin() as connection:
        found = connection.exec_driver_sql(
            "SELECT h.name, extract(epoch FROM e.began_at) FROM homes AS h "
            "JOIN epochs AS e ON e.home_id = h.id AND e.epoch = h.epoch"
        )
        return {row[0]: float(row[1]) for row in found}


def rows(file: Path, statement: str, *values: str) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(10_000)
        return list(connection.execute(statement, values))


@dataclass
class Look:
    """How the ledgers of all homes stand to what was accepted."""

    missing: list[Message] = field(default_factory=list[Message])
    unanswered: list[Message] = field(default_factory=list[Message])
    wrong: list[str] = field(default_factory=list[str])


def homes_of(fleet: Fleet) -> dict[str, Home]:
    """The folder of each home at the host that owns it."""
    roots = {host.name: host.root for host in fleet.world.hosts}
    return {name: Home(roots[owner] / "homes" / name) for name, owner in fleet.owners().items() if owner}


def look(fleet: Fleet, messages: list[Message]) -> Look:
    found = Look()
    for name, home in homes_of(fleet).items():
        own = [each for each in messages if each.home == name and each.accepted_at is not None]
        file = home.ledger("events")
        if not file.exists():
            found.missing += own
            continue
        inbound = Counter(
            str(row[0]) for row in rows(file, "SELECT external_id FROM events WHERE external_id LIKE 'key:%'")
        )
        answers = Counter(
            str(row[0]) for row in rows(file, "SELECT content FROM events WHERE direction = 'outbound'")
        )
        for each in own:
            if not inbound[f"key:{each.key}"]:
                found.missing.append(each)
            elif not answers[f"Answer {each.number}."]:
                found.unanswered.append(each)
        found.wrong += [f"{name}: {count} times {text!r}" for text, count in answers.items() if count > 1]
        found.wrong += [f"{name}: {count} times {key}" for key, count in inbound.items() if count > 1]
    return found


def broken(fleet: Fleet) -> list[str]:
    """What the homes' own checker finds, and runs of a session at the same time."""
    wrong: list[str] = []
    for name, home in homes_of(fleet).items():
        engine = Settings.of_home(home, config.load(home.config_file).engine)
        wrong += [f"{name}: {ledger}: {each}" for ledger in LEDGERS for each in problems(home.ledger(ledger))]
        if wrong:
            continue
        wrong += [f"{name}: {each}" for each in invariants.check(home, engine).violations]
        wrong += [
            f"{name}: {row[0]} began before the run before it ended"
            for row in rows(
                home.ledger("runtime"),
                "SELECT id FROM (SELECT id, started_at, max(ended_at) OVER (PARTITION BY session_label "
                "ORDER BY started_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "
                "FROM executions WHERE started_at IS NOT NULL AND taken_by IS NULL) "
                "WHERE started_at < before",
            )
        ]
    return wrong


async def settled(fleet: Fleet, found: Round) -> None:
    """Wait until everything accepted is answered, and note what isn't."""
    messages = [*fleet.earlier, *found.messages]
    until = time.monotonic() + _ANSWERED_WITHIN_S
    quiet_since = time.monotonic()
    seen = await asyncio.to_thread(look, fleet, messages)
    while (seen.missing or seen.unanswered) and time.monotonic() < until:
        if seen.unanswered or not found.strike.endswith("wiped"):
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > 2 * fleet.world.lease_s:
            break
        await asyncio.sleep(1)
        seen = await asyncio.to_thread(look, fleet, messages)
    if found.strike.endswith("wiped"):
        ages = [found.struck_at - (each.accepted_at or 0.0) for each in seen.missing]
        found.lost, found.oldest_lost_s = len(ages), max(ages, default=0.0)
        if ages and (min(ages) < 0 or max(ages) > _COPY_BEHIND_S):
            found.wrong.append(f"lost messages accepted {min(ages):.1f} to {max(ages):.1f} s before the loss")
    else:
        found.wrong += [f"message {each.number} to {each.home} was lost" for each in seen.missing]
    found.wrong += [f"message {each.number} to {each.home} was not answered" for each in seen.unanswered]
    found.wrong += seen.wrong
    gone = {each.number for each in seen.missing}
    fleet.earlier = [each for each in messages if each.accepted_at is not None and each.number not in gone]
    found.wrong += await asyncio.to_thread(broken, fleet)


async def play(fleet: Fleet, number: int, strike: str) -> Round:
    """One round: messages, a strike in the middle of them, and the reckoning."""
    found = Round(number=number, strike=strike)
    began = time.monotonic()
    stop = asyncio.Event()
    load = asyncio.create_task(fleet.load(found, stop))
    await asyncio.sleep(fleet.chance.uniform(4, 8))
    before = await asyncio.to_thread(fleet.owners)
    await STRIKES[strike](fleet, found)
    await asyncio.sleep(fleet.chance.uniform(4, 8))
    stop.set()
    await load
    after, since = await asyncio.to_thread(fleet.owners), await asyncio.to_thread(began_at, fleet)
    taken = [name for name, owner in before.items() if owner == found.struck and after[name] != owner]
    found.takeovers_s = [since[name] - found.struck_at for name in taken if since[name] > found.struck_at]
    for name in taken:
        accepted = [
            each.accepted_at
            for each in found.messages
            if each.home == name and each.accepted_at and each.accepted_at > since[name]
        ]
        found.served_s += [min(accepted) - found.struck_at] if accepted else []
    await settled(fleet, found)
    found.took_s = time.monotonic() - began
    return found


def reported(found: Round) -> str:
    failures = ", ".join(f"{count}x {what}" for what, count in found.failures.most_common(4)) or "none"
    takeover = f"{max(found.takeovers_s):.1f} s" if found.takeovers_s else "none"
    served = f"{max(found.served_s):.1f} s" if found.served_s else "none"
    accepted = sum(each.accepted_at is not None for each in found.messages)
    return (
        f"| {found.number} | {found.strike} | {accepted} | {len(found.takeovers_s)} | {takeover} | {served} "
        f"| {found.lost} | {failures} | {len(found.wrong)} |"
    )


async def run(given: argparse.Namespace, folder: Path) -> tuple[list[Round], str]:
    chance = random.Random(given.seed)
    with World(folder, _HOSTS, given.lease_s) as world:
        world.models.always(answer)
        fleet = Fleet(world, given.homes, given.rate_per_s, chance)
        with fleet.registry:
            fleet.add_homes()
            await fleet.warm_up()
            rounds: list[Round] = []
            began = time.monotonic()
            try:
                for number in range(1, given.rounds + 1):
                    strike = given.strike or chance.choice(list(STRIKES))
                    progress(f"round {number}: {strike}")
                    rounds.append(await play(fleet, number, strike))
                    progress(reported(rounds[-1]))
                    for line in rounds[-1].wrong[:20]:
                        progress(f"  WRONG {line}")
                    if (rounds[-1].wrong and given.stop) or time.monotonic() - began > given.minutes * 60:
                        break
            finally:
                await fleet.close()
        return rounds, world.network.name


def figures(rounds: list[Round]) -> list[Figure]:
    messages = [each for one in rounds for each in one.messages if each.accepted_at is not None]
    takeovers = [each for one in rounds for each in one.takeovers_s]
    served = [each for one in rounds for each in one.served_s]
    waits = sorted((each.accepted_at or 0.0) - each.began_at for each in messages)
    wrong = sum(len(one.wrong) for one in rounds)
    lost = sum(one.lost for one in rounds)
    oldest = max((one.oldest_lost_s for one in rounds), default=0.0)
    return [
        Figure("messages accepted", f"{len(messages):,} in {len(rounds)} rounds"),
        Figure(
            "not answered exactly once, overlapping sessions, fenced writes, broken invariants or files",
            str(wrong),
            "0",
            wrong == 0,
        ),
        Figure(
            "lost with a wiped disk; oldest when it was lost",
            f"{lost}; {oldest:.1f} s",
            f"{_COPY_BEHIND_S:.0f} s",
            oldest <= _COPY_BEHIND_S,
        ),
        Figure("homes taken over, until they have a new owner: p50, most", spread(takeovers)),
        Figure("the same, until the next message is accepted: p50, most", spread(served)),
        Figure(
            "a message until it is accepted, repeats included: p50, p99, most",
            f"{percentile(waits, 0.5):.2f} s, {percentile(waits, 0.99):.1f} s, {waits[-1]:.1f} s",
        ),
    ]


def spread(values: list[float]) -> str:
    if not values:
        return "none"
    return f"{len(values)}: {statistics.median(values):.1f} s, {max(values):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--homes", type=int, default=12)
    parser.add_argument("--rate-per-s", type=float, default=4.0)
    parser.add_argument("--lease-s", type=float, default=15.0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no round after that")
    parser.add_argument("--strike", choices=list(STRIKES), help="always this one")
    parser.add_argument("--stop", action="store_true", help="end after a round in which something is wrong")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    parser.add_argument("--quick", action="store_true", help="one short round: a host is killed")
    parser.add_argument("--write", action="store_true", help="put the figures into bench/RESULTS.md")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.homes, given.rate_per_s, given.strike = 1, 4, 2.0, "kill -9"
        given.lease_s = 6.0
    folder = Path(tempfile.mkdtemp(prefix="fleet-"))
    try:
        rounds, network = asyncio.run(run(given, folder))
        rounds[-1].wrong += damaged(folder / "copies")
    finally:
        if given.keep:
            progress(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    lines = [
        "| round | strike | accepted | homes taken over | new owner, most | next message, most | lost "
        "| clients saw | wrong |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(reported, rounds),
    ]
    text = f"{table(figures(rounds))}\n" + "\n".join(lines) + "\n"
    print(text)
    if given.write:
        about = (
            f"`python bench/fleet.py --rounds {len(rounds)} --seed {given.seed}`: {_HOSTS} hosts, "
            f"{given.homes} homes, {given.rate_per_s:g} messages a second, a lease of {given.lease_s:g} s; "
            f"{network}. {machine()}"
        )
        write_section("fleet", f"## Three hosts, one struck down\n\n{about}\n\n{text}")
    sys.exit(any(one.wrong for one in rounds))


if __name__ == "__main__":
    main()
