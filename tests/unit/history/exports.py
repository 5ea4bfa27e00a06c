"""Authored exports, and what is recorded of them."""

import json
from pathlib import Path
from typing import Any, Final, cast

import apsw

from nexus import history
from nexus.ledgers import Ledgers
from nexus.ledgers.events.imports import Import
from nexus.memory.operations import Memory

AGENT_SESSIONS: Final = Path(__file__).parent / "agent_sessions"
"""Folders as Claude Code and Codex write them, by the name of the format."""


async def bring(ledgers: Ledgers, path: Path, **options: Any) -> Import:
    """Import a path into a home."""
    format_ = options.pop("format_", None)
    source = history.open_source(path, history.Options(**options), format_)
    return await history.Importer(ledgers, Memory(ledgers), source).run()


async def rows(ledgers: Ledgers, query: str, ledger: str = "events") -> list[tuple[Any, ...]]:
    def work(connection: apsw.Connection) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", connection.execute(query).fetchall())

    return await ledgers[ledger].read(work)


async def said(ledgers: Ledgers) -> list[tuple[Any, ...]]:
    """Who said what, in the order of recording."""
    return await rows(ledgers, "SELECT direction, sender, content FROM events ORDER BY seq")


def node(id_: str, parent: str | None, *children: str, **message: Any) -> dict[str, Any]:
    """A node of a ChatGPT conversation; `text` and `role` are short for what they say."""
    if "text" in message:
        message["content"] = {"content_type": "text", "parts": [message.pop("text")]}
    if "role" in message:
        message["author"] = {"role": message.pop("role")}
    whole: dict[str, Any] | None = None
    if message:
        whole = {"id": id_, "recipient": "all", "metadata": {}, **message}
    return {"id": id_, "message": whole, "parent": parent, "children": list(children)}


def conversation(id_: str, current: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "title": f"About {id_}",
        "create_time": 1_700_000_000.5,
        "conversation_id": id_,
        "current_node": current,
        "mapping": {each["id"]: each for each in nodes},
        **more,
    }


def long_conversation(id_: str, messages: int, words: str = "word") -> dict[str, Any]:
    """One that goes on and on, without a branch."""
    nodes = [
        node(
            f"{id_}-{number}",
            f"{id_}-{number - 1}" if number else None,
            *((f"{id_}-{number + 1}",) if number + 1 < messages else ()),
            role="assistant" if number % 2 else "user",
            text=f"{words} {number}",
            create_time=1_700_000_000 + number,
        )
        for number in range(messages)
    ]
    return conversation(id_, f"{id_}-{messages - 1}", *nodes)


def chatgpt(path: Path, *conversations: dict[str, Any]) -> Path:
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


def mail(number: int, **headers: str) -> str:
    """One mail of an mbox; `body` is what it says."""
    body = headers.pop("body", f"Text of mail {number}")
    given = {
        "From": "Ada Lovelace <ada@example.com>",
        "To": "me@example.com",
        "Subject": f"Subject {number}",
        "Date": f"Thu, 02 Jan 2020 10:{number % 60:02}:00 +0100",
        "Message-ID": f"<mail-{number}@example.com>",
        **headers,
    }
    lines = "\n".join(f"{name.replace('_', '-')}: {value}" for name, value in given.items())
    return f"From somebody Thu Jan  2 10:00:00 2020\n{lines}\n\n{body}\n\n"
