"""Mental models through a memory socket: listed, shown and saved by whoever may see the whole memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.recall import Recall
from nexus.memory.writing import Provenance
from nexus.request import EVERYTHING, Visibility
from nexus.skills.commands import Commands
from nexus.skills.memory_socket import MemorySocket
from unit.skills.test_memory_socket import ask

NAME = "Mira and suppliers"
ONE_THREAD = Visibility(thread_ids=frozenset({"thr_1"}))


def commands(opened: Ledgers, *, writes: bool = True, visible: Visibility = EVERYTHING) -> Commands:
    async def recall() -> Recall:
        return Recall(opened, None, visible=visible)

    provenance = Provenance(actor="tidy", kind="automation", request_id="req_1")
    return Commands(Memory(opened), recall, provenance, writes=writes, visible=visible)


async def learn(opened: Ledgers, text: str) -> str:
    written = await Memory(opened).run("fact", {"fact": text}, Provenance(actor="test", kind="owner"))
    return str(written["id"])


def words(*arguments: str) -> bytes:
    return b"".join(each.encode() + b"\0" for each in arguments)


async def test_a_conclusion_is_saved_listed_and_shown(opened: Ledgers, tmp_path: Path) -> None:
    async def through(command: str, *arguments: str) -> Any:
        status, body = await ask(tmp_path, command, words(*arguments))
        assert status == 200, body
        return json.loads(body)

    async with MemorySocket(tmp_path, commands(opened).answer):
        fact = await learn(opened, "Mira asks for three prices")
        assert await through("models") == []
        saved = await through(
            "write", "mental-model", "--name", NAME, "--content", f"Mira asks for three prices [{fact}]."
        )
        [listed] = await through("models", "--limit", "5", "--json")
        assert (listed["id"], listed["name"], listed["author"]) == (saved["id"], NAME, "tidy")
        shown = await through("models", NAME)
        assert shown == await through("models", saved["id"])
        assert [each["id"] for each in shown["sources"]] == [fact]
        assert await through("models", "--stale") == []
        newer = await learn(opened, "Mira asks for one price")
        replaced = {"cause": fact, "effect": newer, "relation": "replaced"}
        await Memory(opened).run("causal-link", replaced, Provenance(actor="test", kind="owner"))
        [stale] = await through("models", "--stale")
        assert stale["stale_reason"] == f"newer: {newer}"
        [found] = (await through("search", "prices", "--scope", "mental_models"))["results"]
        assert (found["id"], found["stale_since"]) == (saved["id"], stale["stale_at"])
        await through("write", "mental-model", "--previous", NAME, "--content", f"Mira asks once [{newer}].")
        assert [each["version"] for each in (await through("models", NAME))["versions"]] == [2, 1]


async def test_a_reader_sees_mental_models_and_saves_none(opened: Ledgers) -> None:
    fact = await learn(opened, "Mira asks for three prices")
    reader = commands(opened, writes=False)
    assert await reader.models([]) == []
    with pytest.raises(UsageError, match="may read the memory and not write it"):
        await reader.write(["mental-model", "--name", NAME, "--content", f"Prices [{fact}]."])


async def test_who_sees_one_conversation_neither_sees_nor_saves_them(opened: Ledgers) -> None:
    fact = await learn(opened, "Mira asks for three prices")
    guest = commands(opened, visible=ONE_THREAD)
    for arguments in ([], [NAME]):
        with pytest.raises(UsageError, match="this run sees one"):
            await guest.models(arguments)
    given = {"operation": "mental-model", "name": NAME, "content": f"Prices [{fact}]."}
    with pytest.raises(UsageError, match="this run sees one"):
        await guest.write(["mental-model", "--name", NAME, "--content", f"Prices [{fact}]."])
    for batch in ([given], [{"operation": "fact", "fact": "Tea is ready"}, given]):
        with pytest.raises(UsageError, match="this run sees one"):
            await guest.batch("\n".join(map(json.dumps, batch)).encode())
        with pytest.raises(UsageError, match="this run sees one"):
            await guest.batch(json.dumps(batch).encode())
    assert await commands(opened).models([]) == []


async def test_an_operation_that_is_no_text_is_refused(opened: Ledgers) -> None:
    operations: list[object] = [{}, [], ["mental-model"]]
    for operation in operations:
        with pytest.raises(UsageError, match="operation"):
            await commands(opened, visible=ONE_THREAD).batch(json.dumps([{"operation": operation}]).encode())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--scope", "facts"], "no flag `--scope`"),
        (["--limit", "0"], "number from 1"),
        (["nobody"], "Unknown mental model 'nobody'"),
    ],
)
async def test_wrong_arguments_are_told(opened: Ledgers, arguments: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        await commands(opened).models(arguments)
