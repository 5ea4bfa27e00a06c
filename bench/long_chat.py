"""One chat of 300 turns, in one run: what a turn costs at its beginning and at its end.

    python bench/long_chat.py              prints the figures
    python bench/long_chat.py --write      and puts them into RESULTS.md
    python bench/long_chat.py --turns 60   shorter, for a look
    python bench/long_chat.py --profile    where the processor time goes, early and late

The model server is a process of its own, so the processor time is that of Nexus: its loop, its threads, and
what it does behind the turns. The whole conversation is sent each time; 300 turns need no summary.

A machine that others use is slower at one time than at another, so an early turn says little about a late
one. At the end turns of three chats alternate in random order: the long one, one that begins then in the same
home, and one in a home that is new. Beside the last, the long chat shows everything that grew; the second
shows how much of that is the home's, whose memory has 300 messages to look through, instead of the chat's;
and bare calls of the agent library with the same conversation show what the request itself costs.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from model_server import model_server
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from report import Figure, machine, progress, table, write_section
from turn_profile import Profile

from nexus import config
from nexus.app import App
from nexus.broker.agent.clients import Opening, connect_anthropic, connect_openai
from nexus.home import Home

_KEY = "BENCH_MODEL_KEY"
_ANSWER = "Noted: the apples, the farmer, the price and the weather of that day. Is there anything else?"
_WIRES = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}
_EARLY, _WINDOW, _OPENINGS = 10, 10, 5
_MOST_TIMES = 1.1


@dataclass(frozen=True)
class Turn:
    """What one turn took."""

    cpu_ms: float
    first_ms: float
    sent_messages: int


@dataclass(frozen=True)
class Measured:
    """A long chat, its last turns beside those of new chats, and bare calls as long as its ends."""

    turns: Sequence[Turn]
    late: Sequence[Turn]
    new: Sequence[Turn]
    """Of a new chat in the same home."""
    fresh: Sequence[Turn]
    """Of a chat in a new home."""
    bare_ms: tuple[float, float]


async def chat(app: App, turns: int, profiles: dict[int, Profile], session_label: str = "long") -> list[Turn]:
    """Talk, turn by turn; a profile watches the turns of a window that ends at its number."""
    found: list[Turn] = []
    watched = ExitStack()
    for number in range(1, turns + 1):
        if (profile := profiles.get(number + _WINDOW - 1)) is not None:
            watched.enter_context(profile.watching())
        found.append(await _turn(app, number, session_label))
        if number in profiles:
            watched.close()
        if number % 50 == 0:
            progress(f"turn {number}: {statistics.median(t.cpu_ms for t in found[-_WINDOW:]):.1f} ms")
    return found


def _text(number: int) -> str:
    return (
        f"On day {number} I bought {number} apples from farmer number {number % 17} and paid {number * 3} "
        f"euros; the weather was like on day {number // 2}."
    )


async def _turn(app: App, number: int, session_label: str) -> Turn:
    cpu, began, first_ms = time.process_time(), time.perf_counter(), 0.0
    run = await app.send(_text(number), session_label=session_label, channel="bench")
    async for delta in run.deltas():
        if delta.kind == "text" and not first_ms:
            first_ms = (time.perf_counter() - began) * 1000
    await run.result()
    await asyncio.sleep(0.05)  # what is done behind a turn counts as its own
    return Turn(cpu_ms=(time.process_time() - cpu) * 1000, first_ms=first_ms, sent_messages=2 * number - 1)


async def alternate(home: Home, other: Home, turns: int) -> tuple[list[Turn], list[Turn], list[Turn]]:
    """Turns of the long chat, of a new one in its home and of one in another home, as they come.

    A process answers for one home at a time, so they are opened in turn; the first turn then isn't counted.
    """
    late, new, fresh = list[Turn](), list[Turn](), list[Turn]()
    chats = [(late, home, turns, "long"), (new, home, 0, "new"), (fresh, other, 0, "long")]
    each = 2 * _WINDOW // _OPENINGS
    for opening in range(_OPENINGS):
        for found, where, before, label in random.sample(chats, len(chats)):
            start = before + opening * (each + 1) + 1
            async with App(where, config.load(where.config_file)) as app:
                await _turn(app, start, label)
                found += [await _turn(app, start + n, label) for n in range(1, each + 1)]
    return late, new, fresh


async def bare_call(agent: Agent, turns: int) -> float:
    """Milliseconds of processor time of a call of the agent library after so many turns."""
    said: list[ModelMessage] = [
        message
        for number in range(1, turns)
        for message in (
            ModelRequest(parts=[UserPromptPart(_text(number))]),
            ModelResponse(parts=[TextPart(_ANSWER)]),
        )
    ]
    spent: list[float] = []
    for _ in range(2 * _WINDOW):
        cpu = time.process_time()
        async with agent.run_stream(_text(turns), message_history=said) as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                pass
        spent.append((time.process_time() - cpu) * 1000)
    return statistics.median(spent)


async def measure(wire: str, turns: int, profiles: dict[int, Profile]) -> Measured:
    """Talk in a new home with a model behind one kind of API."""
    with tempfile.TemporaryDirectory() as folder:
        script = {"always": _ANSWER}
        with model_server(Path(folder), script) as url:
            base = url if wire == "anthropic" else f"{url}/v1"
            home, other = (_make_home(Path(folder) / name, wire, base) for name in ("home", "other"))
            async with App(home, config.load(home.config_file)) as app:
                found = await chat(app, turns, profiles)
            late, new, fresh = await alternate(home, other, turns)
            opening = Opening(base_url=base, api_key="k", auth_token=None, headers={})
            client = (connect_anthropic if wire == "anthropic" else connect_openai)(opening)
            agent = Agent(client.model(_WIRES[wire]))
            bare_ms = await bare_call(agent, _EARLY), await bare_call(agent, turns)
            await client.close()
            return Measured(found, late, new, fresh, bare_ms)


def _make_home(folder: Path, wire: str, base: str) -> Home:
    home = Home(folder)
    home.create()
    home.config_file.write_text(
        f'[models]\nmanager = "{wire}/{_WIRES[wire]}"\nwriter = "none"\n'
        f'[providers.{wire}]\nkind = "{wire}"\nbase_url = "{base}"\napi_key = "env:{_KEY}"\n'
    )
    return home


def window(turns: Sequence[Turn], end: int) -> Sequence[Turn]:
    """The turns around one: ten up to it, and ten after it where there are as many."""
    return turns[max(0, end - _WINDOW) : end + _WINDOW]


def figures(wire: str, measured: Measured) -> list[Figure]:
    """What is compared: processor time and first words, early and late."""
    turns = measured.turns
    last = len(turns)
    early, then = (statistics.median(t.cpu_ms for t in window(turns, n)) for n in (_EARLY, last))
    first, final = (statistics.median(t.first_ms for t in window(turns, n)) for n in (_EARLY, last))
    late, new, fresh = (
        statistics.median(turn.cpu_ms for turn in chat)
        for chat in (measured.late, measured.new, measured.fresh)
    )
    bare_first, bare_last = measured.bare_ms
    return [
        Figure(
            f"{wire}: processor time of a turn around turn {_EARLY} in a new home, and after {last} turns",
            f"{fresh:.1f} and {late:.1f} ms, {late / fresh:.2f} times",
            f"at most {_MOST_TIMES} times",
            late / fresh <= _MOST_TIMES,
        ),
        Figure(
            f"{wire}: around turn {_EARLY} of a new chat in the long chat's home",
            f"{new:.1f} ms; the long chat's is {late / new:.2f} times",
        ),
        Figure(
            f"{wire}: bare calls of the agent library with {_EARLY} and {last} turns",
            f"{bare_first:.1f} and {bare_last:.1f} ms: {bare_last - bare_first:.1f} ms more",
        ),
        Figure(
            f"{wire}: the long chat around turns {_EARLY} and {last}, minutes apart",
            f"{early:.1f} and {then:.1f} ms, {then / early:.2f} times",
        ),
        Figure(f"{wire}: first words, around turns {_EARLY} and {last}", f"{first:.0f} and {final:.0f} ms"),
    ]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--turns", type=int, default=300)
    options.add_argument("--wire", choices=list(_WIRES), action="append")
    options.add_argument("--profile", action="store_true")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    os.environ[_KEY] = "k"
    found: list[Figure] = []
    for wire in given.wire or list(_WIRES):
        progress(f"{given.turns} turns over the API of {wire}")
        profiles = {_EARLY + _WINDOW: Profile(), given.turns: Profile()} if given.profile else {}
        measured = asyncio.run(measure(wire, given.turns, profiles))
        for end, profile in profiles.items():
            print(f"{wire}, turns up to {end}: {profile.cpu_s / _WINDOW * 1000:.1f} ms of a turn")
            for room, spent_ns in profile.lines.most_common(25):
                print(f"  {spent_ns / _WINDOW / 1e6:7.2f} ms  {room}")
        found += figures(wire, measured)
    print(table(found))
    if given.write:
        write_section("long_chat", f"## One long chat\n\n{machine()}\n\n{table(found)}")


if __name__ == "__main__":
    main()
