"""What the runner adds to a request: an empty hook point, ten automations, a script; beside bare pluggy.

python bench/hooks.py [--quick] [--write]
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pluggy
from report import Figure, machine, percentile, progress, table, write_section

from nexus.automations import registration
from nexus.automations.context import Handler, NoServices, Occasion
from nexus.automations.invoker import Invoker
from nexus.automations.registry import Registry
from nexus.automations.runner import Runner
from nexus.automations.scripts.host import Host
from nexus.config import Config
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.request import Access, Agent, Event, Request

_TEN = 10
_SPEC = pluggy.HookspecMarker("bench")
_IMPL = pluggy.HookimplMarker("bench")


class _Spec:
    @_SPEC
    def fire(self, request: Request) -> None:
        """A hook of bare pluggy."""


class _NoOp:
    @_IMPL
    def fire(self, request: Request) -> None:
        """Does nothing."""


def bare_pluggy(rounds: int) -> list[float]:
    """Microseconds of a pluggy call of ten hooks that do nothing."""
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(_Spec)
    for _ in range(_TEN):
        manager.register(_NoOp())
    request, hook, took = _request(), manager.hook.fire, list[float]()
    for _ in range(rounds):
        begun = time.perf_counter()
        hook(request=request)
        took.append((time.perf_counter() - begun) * 1e6)
    return took


def _request() -> Request:
    return Request(
        event=Event(content="Hello", channel="cli"),
        agent=Agent(session_label="main"),
        access=Access(level="owner", tools=None),
    )


async def _no_op(ctx: object) -> None:
    """An automation that does nothing."""


async def timed(rounds: int, work: Callable[[], Awaitable[Any]]) -> list[float]:
    """Microseconds of each round."""
    took: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await work()
        took.append((time.perf_counter() - begun) * 1e6)
    return took


async def measured(home: Home, rounds: int) -> dict[str, list[float]]:
    config, handlers = Config(), dict[str, Handler]()
    async with Ledgers(home, config.ledgers) as opened:
        host = Host()
        runner = Runner(
            ledgers=opened,
            registry=Registry(ledgers=opened, handlers=handlers),
            invoker=Invoker(home, config.automations, host, NoServices()),
            settings=config.automations,
        )
        write = registration.writer(opened)
        for number in range(_TEN):
            path = f"python:no-op-{number}"
            handlers[path] = _no_op
            new = NewAutomation(
                name=f"no-op-{number}", script_path=path, script_hash=None, hook_point="runAutomations"
            )
            await asyncio.to_thread(registration.register, home, write, new)
        await _register_script(home, write)
        try:
            return await _rounds(runner, host, rounds)
        finally:
            await runner.wait_until_settled()
            await host.close()


async def _register_script(home: Home, write: registration.Write) -> None:
    file = home.root / "script.py"
    file.write_text("def run(ctx):\n    return None\n")
    found = await asyncio.to_thread(registration.bring_in, home, "script", file)
    new = NewAutomation(
        name="script", script_path=str(found.path), script_hash=found.hash, hook_point="after:receiveEvent"
    )
    await asyncio.to_thread(registration.register, home, write, new)


async def _rounds(runner: Runner, host: Host, rounds: int) -> dict[str, list[float]]:
    async def fire(hook_point: str) -> None:
        await runner.fire(hook_point, Occasion(request=_request()))

    async def fire_and_settle(hook_point: str) -> None:
        await fire(hook_point)
        await runner.wait_until_settled()

    await fire("runAutomations")
    await host.warm()
    found: dict[str, list[float]] = {}
    for name, work, count in (
        ("empty", lambda: fire("finalize"), rounds * 10),
        ("ten", lambda: fire("runAutomations"), rounds),
        ("ten, recorded", lambda: fire_and_settle("runAutomations"), rounds),
        ("script", lambda: fire_and_settle("after:receiveEvent"), max(rounds // 10, 5)),
    ):
        progress(f"{name}: {count} rounds")
        found[name] = await timed(count, work)
        await runner.wait_until_settled()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it works")
    parser.add_argument("--write", action="store_true", help="put the figures into RESULTS.md")
    arguments = parser.parse_args()
    rounds = 50 if arguments.quick else 2_000
    folder = Path(tempfile.mkdtemp(prefix="nexus-hooks-"))
    try:
        home = Home(folder / "home")
        home.create()
        took = asyncio.run(measured(home, rounds))
    finally:
        shutil.rmtree(folder)
    pluggy_us = percentile(bare_pluggy(rounds * 10), 0.5)
    figures = _figures(took, pluggy_us)
    text = f"## Hook points\n\n`python bench/hooks.py --write`. {machine()}\n\n{table(figures)}"
    print(text)
    if arguments.write:
        write_section("hooks", text)


def _figures(took: dict[str, list[float]], pluggy_us: float) -> list[Figure]:
    empty, ten = percentile(took["empty"], 0.5), percentile(took["ten"], 0.5)
    recorded, script = percentile(took["ten, recorded"], 0.5), percentile(took["script"], 0.5)
    return [
        Figure("an empty hook point: p50", f"{empty:.1f} µs", "< 50 µs", empty < 50),
        Figure(
            "ten blocking automations that do nothing, in process: p50",
            f"{ten / 1000:.2f} ms",
            "< 5 ms",
            ten < 5_000,
        ),
        Figure("the same until their ten rows are durable: p50", f"{recorded / 1000:.2f} ms"),
        Figure("a bare pluggy call of ten hooks that do nothing: p50", f"{pluggy_us:.1f} µs"),
        Figure("ten automations against ten hooks of pluggy", f"{ten / pluggy_us:.0f} times"),
        Figure("a script in a process of its own, until its row is durable: p50", f"{script / 1000:.1f} ms"),
    ]


if __name__ == "__main__":
    main()
