"""200 people chat at once: what the gateway adds over the model server alone, and how much memory it takes.

    python bench/chats.py            prints the figures
    python bench/chats.py --write    and puts them into RESULTS.md
    python bench/chats.py --quick    20 chats and shorter answers, for a look

The model server is a process of its own that writes some 25 pieces a second into each answer. First it is
asked directly, by the provider's own client; then `nexus up`, a process too, is talked with through its HTTP
API by `nexus.client`: a message, and the stream of its answer. Both times all chats begin at once, and this
process does the asking. The home records every message, call, cost and step durably meanwhile.
"""

import argparse
import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anthropic import AsyncAnthropic
from model_server import model_server
from report import Figure, machine, percentile, progress, table, write_section

from nexus.client import Client
from nexus.context.assemble import system_prompt
from nexus.home import Home

_MODEL = "claude-sonnet-4-5"
_KEY = "BENCH_MODEL_KEY"
_BETWEEN_MS = 40
_PIECE = 24
_LOOK_S = 0.05


@dataclass(frozen=True)
class Chat:
    """One answer: milliseconds until its first words, until its end, and how many characters came."""

    first_ms: float
    all_ms: float
    characters: int


async def together(count: int, chat: Callable[[int], Awaitable[Chat]]) -> tuple[list[Chat], list[str]]:
    """All chats at once: how they went, and what went wrong."""
    found = await asyncio.gather(*(chat(number) for number in range(count)), return_exceptions=True)
    errors = [f"{type(each).__name__}: {each}" for each in found if isinstance(each, BaseException)]
    return [each for each in found if isinstance(each, Chat)], errors


def directly(client: AsyncAnthropic, prompt: str) -> Callable[[int], Awaitable[Chat]]:
    """The model server alone."""

    async def chat(number: int) -> Chat:
        began, first, characters = time.perf_counter(), 0.0, 0
        messages = [{"role": "user", "content": f"Tell me story {number}."}]
        async with client.messages.stream(
            model=_MODEL,
            max_tokens=8_000,
            system=prompt,
            messages=messages,  # pyright: ignore[reportArgumentType] - plain dictionaries are what it takes
        ) as answer:
            async for text in answer.text_stream:
                first = first or _since_ms(began)
                characters += len(text)
        return Chat(first, _since_ms(began), characters)

    return chat


def through(client: Client, run: str) -> Callable[[int], Awaitable[Chat]]:
    """The gateway, as a program uses it."""

    async def chat(number: int) -> Chat:
        began, first, characters = time.perf_counter(), 0.0, 0
        answer = await client.send(f"Tell me story {number}.", session_label=f"bench:{run}:{number}")
        async for delta in answer.deltas():
            if delta.kind == "text":
                first = first or _since_ms(began)
                characters += len(delta.text)
        await answer.result()
        return Chat(first, _since_ms(began), characters)

    return chat


async def measured(url: str, folder: Path, *, chats: int, pieces: int) -> list[Figure]:
    """The model server alone, then the gateway in front of it."""
    home = Home(folder / "home")
    with _served(home, url) as pid:
        bare = AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
        async with Client.connect(home) as client:
            progress("warming up")
            await together(3, directly(bare, system_prompt(home)))
            await together(3, through(client, "warm"))
            before_mib = _resident_mib(pid)
            progress(f"{chats} chats with the model server alone")
            alone, alone_errors = await together(chats, directly(bare, system_prompt(home)))
            progress(f"{chats} chats through the gateway")
            watching = asyncio.create_task(_highest_mib(pid))
            served, errors = await together(chats, through(client, "first"))
            progress("and once more")
            before_s = _processor_s(pid)
            again, more_errors = await together(chats, through(client, "again"))
            each_ms = (_processor_s(pid) - before_s) * 1000 / chats
            watching.cancel()
            highest_mib = await watching
        await bare.close()
        after_mib = _resident_mib(pid)
    whole = pieces * _PIECE
    cut = [each for each in (*alone, *served, *again) if each.characters != whole]
    for error in (*errors, *more_errors)[:5]:
        progress(error)
    failed = len(errors) + len(more_errors) + len(alone_errors) + len(cut)
    return [
        Figure(f"errors and answers cut short, of {2 * chats}", str(failed), "0", failed == 0),
        Figure("first words, the model server alone, p50 / p95", _spread(alone, "first_ms")),
        Figure("first words, through the gateway, p50 / p95", _spread(again, "first_ms")),
        Figure("what the gateway adds to the first words, p50 / p95", _added(alone, again, "first_ms")),
        Figure("whole answers, the model server alone, p50 / p95", _spread(alone, "all_ms")),
        Figure("whole answers, through the gateway, p50 / p95", _spread(again, "all_ms")),
        Figure("what the gateway adds to whole answers, p50 / p95", _added(alone, again, "all_ms")),
        Figure("processor time of the gateway for a chat", f"{each_ms:.0f} ms"),
        Figure("memory of the process: before, highest, after", _memory(before_mib, highest_mib, after_mib)),
    ]


@contextmanager
def _served(home: Home, url: str) -> Generator[int]:
    words = [sys.executable, "-m", "nexus", "--home", str(home.root)]
    subprocess.run([*words, "init"], check=True, stdout=subprocess.DEVNULL)
    home.config_file.write_text(
        f'[models]\nmanager = "anthropic/{_MODEL}"\nwriter = "none"\n'
        f'[providers.anthropic]\nkind = "anthropic"\nbase_url = "{url}"\napi_key = "env:{_KEY}"\n'
    )
    environment = {**os.environ, _KEY: "k"}
    up = subprocess.Popen([*words, "up", "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        yield int(json.loads(up.stdout.readline())["pid"])
    finally:
        up.terminate()
        up.wait()


async def _highest_mib(pid: int) -> float:
    highest = 0.0
    try:
        while True:
            highest = max(highest, _resident_mib(pid))
            await asyncio.sleep(_LOOK_S)
    except asyncio.CancelledError:
        return highest


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _since_ms(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _values(chats: list[Chat], name: str) -> list[float]:
    return [getattr(chat, name) for chat in chats] or [0.0]


def _spread(chats: list[Chat], name: str) -> str:
    values = _values(chats, name)
    return f"{statistics.median(values):.0f} / {percentile(values, 0.95):.0f} ms"


def _added(alone: list[Chat], served: list[Chat], name: str) -> str:
    one, other = _values(alone, name), _values(served, name)
    p50 = statistics.median(other) - statistics.median(one)
    return f"{p50:.0f} / {percentile(other, 0.95) - percentile(one, 0.95):.0f} ms"


def _memory(before: float, highest: float, after: float) -> str:
    return f"{before:.0f}, {highest:.0f}, {after:.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    chats, pieces = (20, 25) if given.quick else (200, 250)
    # No two pieces are alike: an answer that repeats itself is cut off.
    text = "".join(f"{hashlib.sha256(bytes([each])).hexdigest()[: _PIECE - 1]} " for each in range(pieces))
    story = {"text": text, "pace": {"between_ms": _BETWEEN_MS}}
    with tempfile.TemporaryDirectory() as name, model_server(Path(name), {"always": story}) as url:
        figures = asyncio.run(measured(url, Path(name), chats=chats, pieces=pieces))
    about = f"{chats} chats at once, answers of {pieces} pieces, one every {_BETWEEN_MS} ms"
    text = (
        f"## Chats through the gateway\n\n`python bench/chats.py`. {about}. {machine()}\n\n{table(figures)}"
    )
    print(text)
    if given.write:
        write_section("chats", text)
    sys.exit(0 if figures[0].met else 1)


if __name__ == "__main__":
    main()
