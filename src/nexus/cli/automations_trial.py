"""Running automations by hand: their tests, replays of recorded requests, and real runs."""

import asyncio
import inspect
import json
import runpy
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from nexus.automations import registration, trial
from nexus.automations.kit import Kit
from nexus.automations.loading import load
from nexus.automations.registry import Entry
from nexus.automations.scripts import checked, script
from nexus.automations.scripts.script import Script
from nexus.automations.trial import Recorded, Replayed, Trial, occasion_of
from nexus.cli.automations_place import print_invocation
from nexus.cli.place import open_home, print_json
from nexus.config import Config
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations, requests
from nexus.ledgers.runtime.invocations import Invocation
from nexus.roles.bundled import bundled


def run_tests(script_path: Path) -> None:
    """Run every test in the file beside a script; exit with 1 if one fails."""
    file = script_path.with_name(f"test_{script_path.stem.replace('-', '_')}.py")
    if not file.is_file():
        raise UsageError(f"There is no {file}", hint="Create one with `nexus automations new NAME`.")
    found = runpy.run_path(str(file))
    tests = {name: each for name, each in found.items() if name.startswith("test_") and callable(each)}
    failed = [name for name, each in tests.items() if not _run_test(name, each)]
    click.echo(f"{len(tests) - len(failed)} passed, {len(failed)} failed")
    if failed or not tests:
        sys.exit(1)


def _run_test(name: str, test: Callable[..., Any]) -> bool:
    try:
        with tempfile.TemporaryDirectory(prefix="nexus-test-") as folder:
            outcome = test(**_make_fixtures(test, Path(folder)))
            if asyncio.iscoroutine(outcome):
                asyncio.run(outcome)
    except Exception:  # whatever a test raises is its failure
        click.echo(f"FAILED  {name}")
        click.echo(traceback.format_exc().rstrip())
        return False
    click.echo(f"ok      {name}")
    return True


def _make_fixtures(test: Callable[..., Any], folder: Path) -> dict[str, Kit]:
    """Make what a test asks for by the names of its parameters."""
    wanted = set(inspect.signature(test).parameters)
    if others := ", ".join(sorted(wanted - {"kit"})):
        raise UsageError(f"Unknown fixture {others}", hint="Ask for `kit`, or run the test with pytest.")
    return {"kit": Kit(folder=folder)} if wanted else {}


@dataclass(frozen=True, kw_only=True)
class _Replay:
    """The outcome of replaying one recorded request."""

    request_id: str
    content: str
    trial: Trial

    def to_json(self) -> dict[str, Any]:
        outcome = {key: getattr(self.trial, key) for key in ("status", "value", "error", "output", "would")}
        return {"request_id": self.request_id, "content": self.content, **outcome}


def replay_requests(
    ctx: click.Context, name: str, request_id: str | None, limit: int, file: Path | None, *, as_json: bool
) -> None:
    """Run an automation against recorded requests and print what it would have returned."""
    home, config = open_home(ctx)
    replays = asyncio.run(_replay(home, config, name, request_id, limit, file))
    if as_json:
        print_json([each.to_json() for each in replays])
        return
    for each in replays:
        click.echo(f"{each.request_id}  {each.trial.status}  “{each.content[:72]}”")
        if each.trial.value is not None:
            click.echo(f"    would return {json.dumps(each.trial.value, ensure_ascii=False)}")
        if each.trial.error:
            click.echo(f"    error: {each.trial.error}")
        for line in each.trial.would:
            click.echo(f"    would {line}")
        for line in each.trial.output.splitlines():
            click.echo(f"    | {line}")
    if not replays:
        click.echo("No recorded requests to replay.")


async def _replay(
    home: Home, config: Config, name: str, request_id: str | None, limit: int, file: Path | None
) -> list[_Replay]:
    async with Ledgers(home, config.ledgers) as ledgers:
        loaded = await asyncio.to_thread(load, home, registration.writer(ledgers), bundled(config=config))
        found = await ledgers.runtime.read(automations.get, name=name)
        if found is None:
            raise registration.unknown(name)
        entry = Entry(found, loaded.handlers.get(found.script_path or ""))
        code = await asyncio.to_thread(_read_code, home, entry, file)
        latest = [] if request_id else await ledgers.runtime.read(requests.recent_roots, limit=limit)
        wanted = [request_id] if request_id else [each.id for each in latest]
        below = Recorded(ledgers, config.memory)
        replays: list[_Replay] = []
        for each in wanted:
            occasion = await occasion_of(ledgers, each, entry.automation.hook_point)
            if occasion is None:
                if request_id:
                    raise UsageError(f"Unknown request {each}", hint="`nexus trace` lists them.")
                continue
            runs = await Recorded.of(ledgers, entry.automation, each)
            services = Replayed(below=below, recorded=runs)
            timeout_ms = entry.automation.timeout_ms or config.automations.timeout_ms
            ended = await trial.replay(home, entry, code, occasion, services, timeout_ms)
            replays.append(_Replay(request_id=each, content=occasion.request.event.content, trial=ended))
        return replays


def _read_code(home: Home, entry: Entry, file: Path | None) -> Script | None:
    """Read the script to replay: another file, or the home's, even before it is registered."""
    if file is not None:
        return script.read(file.absolute())
    if entry.handler is not None:
        return None
    return script.read(checked.place(home, entry.automation.script_path or ""))


def run_now(ctx: click.Context, name: str, content: str, *, as_json: bool) -> None:
    """Run an automation for real, and print the result."""
    home, config = open_home(ctx)

    async def run() -> Invocation:
        from nexus.app import App  # heavy, and only this command needs it

        async with App(home, config) as app:
            return await app.run_automation(name, content)

    invocation = asyncio.run(run())
    if as_json:
        print_json(asdict(invocation))
    else:
        print_invocation(invocation)
    if invocation.status != "done":
        sys.exit(1)
