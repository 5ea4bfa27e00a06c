"""What a message costs a served home, from outside, beside bare calls of the agent library.

    python bench/served.py [--rounds 5] [--chats 100 200] [--against OTHER] [--postgres] [--write]

Homes are served by `nexus up`: one without the memory writer and one with it. Blocks of ten turns in one
session over HTTP alternate with blocks of ten bare calls to the same model server, with the same history.
A turn's processor time is the server's until the answer has been read; "with what follows", until the server
is quiet. With `--against`, the checkout in another folder serves homes beside, and all take turns. With
`--postgres`, each home's engine has a database of a fresh Postgres (with `PYTHONPATH=tests`).
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from model_server import model_server
from pydantic_ai import Agent, ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from report import machine, progress, write_section
from start import Program, cpu_s

_HERE = Path(__file__).parents[1]
_BLOCK = 10
_IDLE_S = 60
_QUIET_S, _QUIET_SHARE = 2.0, 0.05
_REPLY = "Yes, that is so."


@dataclass
class Figures:
    """What was measured of one home."""

    turn_cpu_ms: list[float] = field(default_factory=list[float])
    all_cpu_ms: list[float] = field(default_factory=list[float])
    accepted_ms: list[float] = field(default_factory=list[float])
    first_ms: list[float] = field(default_factory=list[float])
    chats_first_ms: dict[int, float] = field(default_factory=dict[int, float])
    after_one_turn_mib: int = 0
    idle_share: float = 0.0


@dataclass
class Served:
    """A home that is served, and what was measured of it."""

    name: str
    pid: int
    client: httpx.AsyncClient
    figures: Figures = field(default_factory=Figures)

    async def turn(self, text: str, session: str) -> tuple[float, float]:
        """Send a message and read its answer: milliseconds until it was accepted, and to its first words."""
        began = time.perf_counter()
        response = await self.client.post("/api/messages", json={"text": text, "session": session})
        response.raise_for_status()
        accepted, first = time.perf_counter(), 0.0
        execution = response.json()["execution_id"]
        async with self.client.stream("GET", f"/api/executions/{execution}/stream") as stream:
            async for line in stream.aiter_lines():
                if not first and '"text"' in line:
                    first = time.perf_counter()
                if line.startswith("event: failed"):
                    raise RuntimeError(f"{self.name}: a turn failed")
                if line.startswith("event: result"):
                    break
        return 1000 * (accepted - began), 1000 * ((first or time.perf_counter()) - began)


class Bare:
    """The agent library alone, against the same server."""

    def __init__(self, url: str, prompt: str) -> None:
        provider = OpenAIProvider(base_url=url, api_key="k")
        self._agent = Agent(OpenAIChatModel("small", provider=provider), instructions=prompt)
        self._history: list[ModelMessage] = []

    async def turn(self, text: str, *, keep: bool = True) -> float:
        """Call the model: milliseconds to its first words."""
        began, first = time.perf_counter(), 0.0
        async with self._agent.run_stream(text, message_history=self._history if keep else []) as run:
            async for _ in run.stream_text(delta=True, debounce_by=None):
                first = first or time.perf_counter()
            if keep:
                self._history = run.all_messages()
        return 1000 * (first - began)

    async def block_cpu_ms(self) -> float:
        """The processor time of a call, over a block of them."""
        before = time.process_time()
        for _ in range(_BLOCK):
            await self.turn("Is this a nice number?")
        return 1000 * (time.process_time() - before) / _BLOCK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chats", type=int, nargs="*", default=[100, 200])
    parser.add_argument("--against", type=Path, help="Another checkout to compare with.")
    parser.add_argument("--postgres", action="store_true", help="The engine on Postgres instead of SQLite.")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    checkouts = {"now": _HERE, **({"before": options.against} if options.against else {})}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nexus-bench-")))
        url = stack.enter_context(model_server(folder, {"always": _REPLY}))
        new_database: Callable[[], str] | None = None
        if options.postgres:
            from contract.postgres import Postgres

            cluster = Postgres()
            cluster.start()
            stack.callback(cluster.stop)
            new_database = cluster.new_database
        text = asyncio.run(
            measure(folder, f"{url}/v1", checkouts, options.rounds, options.chats, new_database)
        )
    print(text)
    print(machine())
    if options.write:
        engine = ", the engine on Postgres" if options.postgres else ""
        about = f"`python bench/served.py`: {options.rounds} rounds{engine}. {machine()}"
        title = f"A served home, from outside{engine}"
        write_section(f"bench/served.py{engine}", f"## {title}\n\n{about}\n\n{text}")


async def measure(
    folder: Path,
    url: str,
    checkouts: dict[str, Path],
    rounds: int,
    chats_at_once: list[int],
    new_database: Callable[[], str] | None = None,
) -> str:
    """Serve the homes of each checkout, without the memory writer and then with it, and measure by turns."""
    tables: list[str] = []
    for writer in (False, True):
        bare, bare_cpu_ms = Bare(url, "You are a helpful assistant."), list[float]()
        async with AsyncExitStack() as stack:
            homes = [
                await _serve(
                    stack,
                    folder / f"{name}-{writer}",
                    name,
                    checkout,
                    url,
                    writer=writer,
                    database=new_database() if new_database else "",
                )
                for name, checkout in checkouts.items()
            ]
            for round_ in range(rounds):
                progress(f"{_with(writer)}: round {round_ + 1} of {rounds}")
                bare_cpu_ms.append(await bare.block_cpu_ms())
                for home in homes:
                    await _measure_block(home)
            chats: dict[int, float] = {}
            for many in [] if writer else chats_at_once:
                progress(f"{many} chats at once")
                firsts = await asyncio.gather(
                    *(bare.turn(f"Is {at} nice?", keep=False) for at in range(many))
                )
                chats[many] = statistics.median(firsts)
                for home in homes:
                    turns = await asyncio.gather(
                        *(home.turn(f"Is {at} nice?", f"{many}-{at}") for at in range(many))
                    )
                    home.figures.chats_first_ms[many] = statistics.median(first for _, first in turns)
                    await _wait_until_quiet(home.pid)
            if not writer:
                await _measure_idle(homes)
            tables.append(_table(bare_cpu_ms, chats, homes, writer=writer))
    return "\n".join(tables)


async def _serve(
    stack: AsyncExitStack, home: Path, name: str, checkout: Path, url: str, *, writer: bool, database: str
) -> Served:
    """Serve a new home, and let its models load by one turn."""
    program = Program(checkout, home)
    program.make_home(url, writer="bench/small" if writer else "none")
    if database:
        with (home / "config.toml").open("a", encoding="utf-8") as settings:
            settings.write(f'[engine]\ndatabase = "{database}"\n')
    _, address, pid = stack.enter_context(program.serve())
    headers = {"Authorization": f"Bearer {(home / 'token').read_text(encoding='utf-8').strip()}"}
    limits = httpx.Limits(max_connections=1_000)
    client = httpx.AsyncClient(base_url=address, headers=headers, timeout=600, limits=limits)
    served = Served(name, pid, await stack.enter_async_context(client))
    await served.turn("Is this a nice number?", "first")
    await _wait_until_quiet(served.pid)
    served.figures.after_one_turn_mib = _resident_mib(served.pid)
    return served


async def _measure_block(home: Served) -> None:
    before = cpu_s(home.pid)
    times = [await home.turn("Is this a nice number?", "block") for _ in range(_BLOCK)]
    home.figures.turn_cpu_ms.append(1000 * (cpu_s(home.pid) - before) / _BLOCK)
    home.figures.accepted_ms += [accepted for accepted, _ in times]
    home.figures.first_ms += [first for _, first in times]
    await _wait_until_quiet(home.pid)
    home.figures.all_cpu_ms.append(1000 * (cpu_s(home.pid) - before) / _BLOCK)


async def _measure_idle(homes: list[Served]) -> None:
    progress(f"idle for {_IDLE_S} s")
    before = [cpu_s(home.pid) for home in homes]
    await asyncio.sleep(_IDLE_S)
    for home, used_s in zip(homes, before, strict=True):
        home.figures.idle_share = (cpu_s(home.pid) - used_s) / _IDLE_S


async def _wait_until_quiet(pid: int) -> None:
    """Wait until a process has used next to nothing for a while, for three minutes at most."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        before = cpu_s(pid)
        await asyncio.sleep(_QUIET_S)
        if cpu_s(pid) - before < _QUIET_S * _QUIET_SHARE:
            return


def _table(bare_ms: list[float], chats: dict[int, float], homes: list[Served], *, writer: bool) -> str:
    """One column for each home; in brackets how many bare calls that is."""
    bare, measured = statistics.median(bare_ms), [home.figures for home in homes]

    def row(what: str, values: list[float], unit: str, per: float | None = None) -> str:
        cells = [f"{value:,.0f} {unit}" + (f" ({value / per:.1f})" if per else "") for value in values]
        return f"| {what} | {' | '.join(cells)} |"

    lines = [
        f"| {_with(writer)}: a bare call is {bare:.1f} ms | {' | '.join(home.name for home in homes)} |",
        "|---" * (len(homes) + 1) + "|",
        row(
            "processor time of a turn", [statistics.median(each.turn_cpu_ms) for each in measured], "ms", bare
        ),
        row("… with what follows", [statistics.median(each.all_cpu_ms) for each in measured], "ms", bare),
        row("accepted, p50", [statistics.median(each.accepted_ms) for each in measured], "ms", bare),
        row("first words, p50", [statistics.median(each.first_ms) for each in measured], "ms"),
        row("memory after the first turn", [each.after_one_turn_mib for each in measured], "MiB"),
    ]
    for many, first_ms in chats.items():
        values = [each.chats_first_ms[many] for each in measured]
        lines.append(
            row(f"{many} chats at once, first words p50 (bare: {first_ms:,.0f} ms)", values, "ms", first_ms)
        )
    if not writer:
        cells = [f"{100 * each.idle_share:.2f} %" for each in measured]
        lines.append(f"| idle, of a core | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _with(writer: bool) -> str:
    return "with the memory writer" if writer else "without the memory writer"


def _resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024


if __name__ == "__main__":
    main()
