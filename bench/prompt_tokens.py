"""How many tokens each role's requests take, turn by turn, by the tokenizer of a real model.

    python bench/prompt_tokens.py capture after.json
    python bench/prompt_tokens.py count MODEL.gguf before.json after.json

`capture` holds a short conversation with a scripted model server and keeps every request; run with the
source of another version on PYTHONPATH, it keeps that version's. `count` serves the file with llama.cpp
(`pip install xllamacpp`) and has it apply its own chat template to each request and count the tokens.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any, cast

import httpx
from local_model import served

from nexus import ledgers
from nexus.app import App
from nexus.config import Config, EngineConfig, ModelsConfig, ProviderConfig, ToolsConfig
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn

_TASK = "Answer with the word ready"
_TAUGHT = "My sister Elin has her birthday on 14 March."
_NOTHING = json.dumps({"people": [], "facts": []})
_TURNS = (
    ("hello", "Hello! Who are you?"),
    ("a file written by a tool", "Write the file todo.txt with the line: call Jonas"),
    ("a recall answered", "When is Elin's birthday?"),
    ("a worker dispatched and waited for", f"Dispatch a worker with the task '{_TASK}', and wait for it."),
)
_CALLS = {
    _TURNS[1][1]: [ToolCall("write", {"path": "todo.txt", "content": "call Jonas"})],
    _TURNS[2][1]: [ToolCall("recall", {"query": "Elin's birthday"})],
    _TURNS[3][1]: [
        ToolCall("agent_send", {"op": "dispatch", "text": _TASK}),
        ToolCall("agent_send", {"op": "wait"}),
    ],
}


def _role(request: ModelRequest) -> str:
    if "Answer with the JSON object." in request.last_user:
        return "writer"
    return "worker" if request.last_user.endswith(_TASK) else "manager"


def _answer(request: ModelRequest) -> Turn:
    if _role(request) == "writer":
        return Turn(_NOTHING)
    said = next((said for said in _CALLS if request.last_user.endswith(said)), None)
    results = sum(message["role"] == "tool" for message in request.json["messages"])
    calls = _CALLS[said] if said else []
    return Turn("", [calls[results]]) if results < len(calls) else Turn("Done.")


async def capture(place: Path) -> list[dict[str, Any]]:
    """Every request of the conversation, with its turn and its role. Each turn is a session of its own."""
    home = Home(place / "home")
    home.create()
    ledgers.create(home)
    desk = place / "desk"
    desk.mkdir()
    kept: list[dict[str, Any]] = []
    async with ModelServer() as server:
        server.always(_answer)
        config = Config(
            engine=EngineConfig(lease_ms=60_000),
            models=ModelsConfig(manager=("local/local",), writer=("local/local",)),
            providers={"local": ProviderConfig(base_url=server.openai_url)},
            tools=ToolsConfig(directories=(f"{desk}:rw",)),
        )
        async with App(home, config) as app:
            # An earlier version calls it by another name.
            say: Any = getattr(app, "send", None) or getattr(app, "say", None)
            for number, (name, text) in enumerate(_TURNS):
                before = len(server.requests)
                run = await say(text, session_label=f"turn-{number}")
                await run.result()
                for request in server.requests[before:]:
                    if _role(request) == "writer":  # it works beside the conversation, and is shown last
                        continue
                    body = {key: request.json.get(key) for key in ("messages", "tools")}
                    kept.append({"turn": name, "role": _role(request), "body": body})
            await (await say(_TAUGHT, session_label="taught")).result()

            def written() -> list[ModelRequest]:
                return [
                    each for each in server.requests if _role(each) == "writer" and _TAUGHT in each.last_user
                ]

            await server.until(written)
            (writer,) = written()
            body = {key: writer.json.get(key) for key in ("messages", "tools")}
            kept.append({"turn": "a message with one fact", "role": "writer", "body": body})
    return kept


async def _count(client: httpx.AsyncClient, messages: Any, tools: Any) -> int:
    body = {"messages": messages, **({"tools": tools} if tools else {})}
    prompt = (await client.post("/apply-template", json=body)).raise_for_status().json()["prompt"]
    found = await client.post("/tokenize", json={"content": prompt, "parse_special": True})
    return len(cast("list[int]", found.raise_for_status().json()["tokens"]))


async def count(url: str, captured: dict[str, list[dict[str, Any]]]) -> None:
    """Print the tables: each request, and the fixed prompt."""
    rows: dict[tuple[str, str], dict[str, list[int]]] = {}
    fixed: dict[str, int] = {}
    async with httpx.AsyncClient(base_url=url.removesuffix("/v1"), timeout=120, trust_env=False) as client:
        for version, requests in captured.items():
            for each in requests:
                body = each["body"]
                used = await _count(client, body["messages"], body["tools"])
                rows.setdefault((each["turn"], each["role"]), {}).setdefault(version, []).append(used)
            first = requests[0]["body"]
            system = [message for message in first["messages"] if message["role"] == "system"]
            empty = await _count(client, [*system, {"role": "user", "content": ""}], first["tools"])
            fixed[version] = empty
    versions = list(captured)
    print(f"| turn | role | {' | '.join(f'{version}: prompt tokens by call' for version in versions)} |")
    print(f"|---|---|{'---|' * len(versions)}")
    for (turn, role), used in rows.items():
        shown = [" + ".join(f"{tokens:,}" for tokens in used.get(version, [])) or "-" for version in versions]
        print(f"| {turn} | {role} | {' | '.join(shown)} |")
    shown = [f"{fixed[version]:,}" for version in versions]
    print(f"| the fixed prompt, with all default tools | manager | {' | '.join(shown)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["capture", "count"])
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    if given.what == "capture":
        with tempfile.TemporaryDirectory() as place:
            given.files[0].write_text(json.dumps(asyncio.run(capture(Path(place)))), encoding="utf-8")
        return
    model, *files = given.files
    captured = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    with served(model, 8192) as url:
        asyncio.run(count(url, captured))


if __name__ == "__main__":
    main()
