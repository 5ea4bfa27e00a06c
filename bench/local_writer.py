"""Tell a small local model a story in sessions, and see what the memory holds and what a new session answers.

`python bench/local_writer.py STORY.json WHERE [--model NAME] [--ask]`: WHERE is the URL of a server that
speaks the OpenAI chat format, or a GGUF file, which is then served with llama.cpp (`pip install xllamacpp`).
The agent's replies while the story is told are scripted, since they teach nothing; the memory writer is the
local model in structured mode. With `--ask` that model also answers the questions in a new session, from
memory. Prints every turn with the model's answer, what was stored (+) and refused (-), tokens and seconds,
and then the score.

A story is `{"sessions": [[message, …], …], "facts": [pattern, …], "questions": [[text, pattern], …]}`: a
fact is stored if a stored fact matches its pattern; what matches no pattern of `facts` or `also` is listed.
"""

import argparse
import asyncio
import json
import re
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from local_model import served

from nexus import clock
from nexus.app import App
from nexus.config import Config, ModelsConfig, ProviderConfig
from nexus.home import Home
from nexus.ledgers.runtime import executions
from nexus.ledgers.runtime.invocations import FINAL
from nexus.testing import ModelServer

_PATIENCE_MS = 1_800_000
_CONTEXT = 8_192


async def main(arguments: argparse.Namespace, story: dict[str, Any], home: Home, url: str) -> None:
    home.create()
    with ModelServer() as server:
        server.when(lambda _: True).always("Noted.")
        config = _config(url, arguments.model, server)
        async with App(home, config) as app:
            await _patient(app)
            for number, session in enumerate(story["sessions"], start=1):
                for said in session:
                    await _tell(app, said, f"session{number}")
            stored = [
                str(row[0]) for row in await _rows(app, "memory", "SELECT fact FROM facts ORDER BY seq")
            ]
        answered = await _questions(home, config, arguments, story) if arguments.ask else []
    _report(story, stored, answered)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("story")
    parser.add_argument("where")
    parser.add_argument("--model", default="local")
    parser.add_argument("--ask", action="store_true")
    return parser.parse_args()


def _config(url: str, model: str, server: ModelServer) -> Config:
    local = ProviderConfig(base_url=url, timeout_ms=_PATIENCE_MS, stall_ms=_PATIENCE_MS, max_retries=0)
    scripted = ProviderConfig(base_url=server.openai_url, max_retries=0)
    return Config(
        models=ModelsConfig(manager=("scripted/large",), writer=(f"local/{model}",)),
        providers={"local": local, "scripted": scripted},
    )


async def _patient(app: App) -> None:
    """Give the writer all the time it needs, and nothing else to do."""
    change = "UPDATE automations SET timeout_ms = ?, self_improvement = 0 WHERE name = 'memory-writer'"
    await app.ledgers.runtime.write(lambda c: c.execute(change, (_PATIENCE_MS,)) and None)
    await asyncio.sleep(3)  # a change made with SQL is noticed within a second or two


async def _tell(app: App, said: str, session: str) -> None:
    begun, begun_at = time.monotonic(), clock.timestamp(clock.now())
    known = (await _rows(app, "memory", "SELECT coalesce(max(seq), 0) FROM facts"))[0][0]
    await (await app.send(said, session_label=session)).result()
    await _quiet(app)
    facts = await _rows(app, "memory", "SELECT fact, source_type, confidence FROM facts WHERE seq > ?", known)
    spent = "SELECT input_tokens, cache_read_tokens, output_tokens FROM usage WHERE role = 'writer'"
    used = await _rows(app, "runtime", f"{spent} ORDER BY created_at DESC LIMIT 1")
    returned = await _rows(app, "runtime", _LAST)
    answers = await _rows(app, "agents", _ANSWERS, begun_at)
    print(f"> [{session}] {said}")
    for (answer,) in answers:
        print(f"  = {' '.join(answer.split())}")
    for fact, source, confidence in facts:
        print(f"  + {fact} ({source}, {confidence})")
    result: dict[str, Any] = json.loads(returned[0][0] or "{}") if returned else {}
    for refusal in cast("dict[str, list[str]]", result.get("log") or {}).get("refused", []):
        print(f"  - {refusal}")
    print(
        f"  {used[0] if used else ''} tokens fresh, cached, out; {time.monotonic() - begun:.0f} s", flush=True
    )


_LAST = """SELECT result_json FROM invocations WHERE automation_id IN
    (SELECT id FROM automations WHERE name = 'memory-writer') ORDER BY created_at DESC LIMIT 1"""

_ANSWERS = """SELECT m.content FROM agent_messages AS m JOIN agent_sessions AS s ON s.id = m.session_id
    WHERE s.label LIKE 'meeseeks:memory-writer:%' AND m.role = 'assistant' AND m.created_at >= ?
    ORDER BY m.created_at"""


async def _questions(
    home: Home, config: Config, arguments: argparse.Namespace, story: dict[str, Any]
) -> list[bool]:
    asking = replace(config, models=ModelsConfig(manager=(f"local/{arguments.model}",), writer=("none",)))
    right: list[bool] = []
    async with App(home, asking) as app:
        for question, pattern in story["questions"]:
            begun = time.monotonic()
            result = await (await app.send(question, session_label="new")).result()
            right.append(re.search(pattern, result.response.content, re.IGNORECASE) is not None)
            used = result.usage
            print(f"? {question}\n  {result.response.content.strip()}")
            print(
                f"  {'right' if right[-1] else 'wrong'}; {used.input_tokens} fresh, {used.cache_read_tokens}"
                f" cached, {used.output_tokens} out; {time.monotonic() - begun:.0f} s",
                flush=True,
            )
    return right


def _report(story: dict[str, Any], stored: list[str], answered: list[bool]) -> None:
    patterns = [re.compile(each, re.IGNORECASE) for each in story["facts"]]
    also = [re.compile(each, re.IGNORECASE) for each in story.get("also", [])]
    found = [any(pattern.search(fact) for fact in stored) for pattern in patterns]
    invented = [fact for fact in stored if not any(each.search(fact) for each in (*patterns, *also))]
    print(f"\nfacts stored: {sum(found)} of {len(patterns)}; missing: ", end="")
    print([pattern.pattern for pattern, is_found in zip(patterns, found, strict=True) if not is_found])
    print(f"matching no pattern: {invented}")
    if answered:
        print(f"questions answered: {sum(answered)} of {len(answered)}")


async def _quiet(app: App) -> None:
    ended = ", ".join(f"'{status}'" for status in sorted(FINAL | executions.FINAL))
    query = f"""SELECT (SELECT count(*) FROM invocations WHERE status NOT IN ({ended}))
        + (SELECT count(*) FROM executions WHERE status NOT IN ({ended}))"""
    while (await _rows(app, "runtime", query))[0][0]:  # noqa: ASYNC110 - rows of a ledger have no event
        await asyncio.sleep(0.5)


async def _rows(app: App, ledger: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    database = app.ledgers[ledger]
    return await database.read(lambda c: cast("list[tuple[Any, ...]]", c.execute(query, values).fetchall()))


if __name__ == "__main__":
    given = _arguments()
    told = json.loads(Path(given.story).read_text("utf-8"))
    is_file = given.where.endswith(".gguf")
    with served(Path(given.where), _CONTEXT) if is_file else nullcontext(given.where) as at:
        asyncio.run(main(given, told, Home(Path(tempfile.mkdtemp()) / "home"), at))
