"""What a conversation costs with a real model on this machine: calls, tokens and time of each turn.

    python bench/local_model.py MODEL.gguf [--context 8192] [--runs 3]

It serves the file with llama.cpp (`pip install xllamacpp`), talks with a new home in each run, and prints a
table of each: a greeting, a file written by a tool, something remembered and asked for, a worker dispatched
and waited for. The server stays, so from the second run on it has the prompt's beginning in its cache.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from nexus.app import App
from nexus.broker.agent.builtin import serve
from nexus.config import Config, EngineConfig, ModelsConfig, ProviderConfig, ToolsConfig
from nexus.home import Home
from nexus.memory.writing import Provenance


@contextlib.contextmanager
def served(file: Path, context_tokens: int) -> Generator[str]:
    """The address of the model, for as long as the context lasts."""
    command = [sys.executable, serve.__file__, str(file), "local", str(context_tokens)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"{process.stdout.readline().strip()}/v1"
        finally:
            process.stdin.close()
            process.wait(60)


async def _turn(app: App, name: str, session: str, text: str) -> dict[str, Any]:
    began = time.perf_counter()
    run = await app.send(text, session_label=session)
    tools = [delta.tool async for delta in run.deltas() if delta.kind == "tool_call"]
    try:
        result = await run.result()
        answer, ended = result.response.content, "done"
        request_id = result.request_id
    except Exception as error:
        answer, ended, request_id = str(error).partition("\n")[0], "failed", ""
    wall_s = time.perf_counter() - began
    rows: Any = await app.ledgers.runtime.read(
        lambda c: c.execute(
            "SELECT role, count(*), sum(input_tokens + cache_read_tokens + cache_write_tokens), "
            "sum(cache_read_tokens), sum(output_tokens) FROM usage "
            "WHERE root_request_id = ? GROUP BY role",
            (request_id,),
        ).fetchall()
    )
    used = cast("list[tuple[str, int, int, int, int]]", rows)
    return {
        "turn": name,
        "ended": ended,
        "calls": sum(row[1] for row in used),
        "prompt_tokens": sum(row[2] for row in used),
        "cached_tokens": sum(row[3] for row in used),
        "output_tokens": sum(row[4] for row in used),
        "wall_s": round(wall_s, 1),
        "tools": tools,
        "answer": " ".join(answer.split())[:200],
    }


async def talk(url: str, place: Path) -> list[dict[str, Any]]:
    """The conversation, with what each turn used."""
    home, folder = Home(place / "home"), place / "desk"
    home.create()
    folder.mkdir()
    config = Config(
        engine=EngineConfig(lease_ms=60_000),
        models=ModelsConfig(manager=("local/local",), writer=("none",)),
        providers={"local": ProviderConfig(base_url=url)},
        tools=ToolsConfig(directories=(f"{folder}:rw",)),
    )
    turns = [
        ("hello", "a", "Hello! Who are you?"),
        ("file written by a tool", "b", f"Write the file {folder}/todo.txt with the line: call Jonas"),
        (
            "recall answered",
            "c",
            "Call the tool recall with the query 'Elin birthday', then tell me the date.",
        ),
        (
            "worker dispatched and waited for",
            "d",
            "Dispatch a worker with the task 'Answer with the word ready', wait for it, "
            "and tell me what it said.",
        ),
    ]
    done: list[dict[str, Any]] = []
    async with App(home, config) as app:
        fact = {"fact": "Elin, the owner's sister, has her birthday on 14 March"}
        await app.memory.run("fact", fact, Provenance(actor="owner", kind="owner"))
        for turn in turns:
            done.append(await _turn(app, *turn))
            print(json.dumps(done[-1]), flush=True)
    print(f"todo.txt: {(folder / 'todo.txt').read_text() if (folder / 'todo.txt').is_file() else None!r}")
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    with served(given.model, given.context) as url:
        for _ in range(given.runs):
            with tempfile.TemporaryDirectory() as place:
                _show(asyncio.run(talk(url, Path(place))))


def _show(done: list[dict[str, Any]]) -> None:
    print("\n| turn | calls | prompt tokens (cached) | output tokens | wall time | tools | ended |")
    print("|---|---|---|---|---|---|---|")
    for each in done:
        print(
            f"| {each['turn']} | {each['calls']} | {each['prompt_tokens']:,} ({each['cached_tokens']:,}) "
            f"| {each['output_tokens']:,} | {each['wall_s']} s | {', '.join(each['tools']) or '-'} "
            f"| {each['ended']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
