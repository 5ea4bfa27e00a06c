"""Which runs have read text that somebody other than the owner wrote, and what it was.

Whoever writes a mail, a page or a message can put instructions into it, and a model may follow them. The
ledgers know what a run has read: the messages of its conversation, what tools gave to it and to its workers,
files that came with messages, and memories of what others said.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import apsw

from nexus.broker.tools import BASH, Effect, Tool, send_file
from nexus.context.quoting import split_quotes
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import Event
from nexus.ledgers.identity import senders
from nexus.ledgers.runtime import requests
from nexus.request import Access, Request

_MOST_NAMED: Final = 4
_ARGUMENTS: Final = 120
_MEMORY_IDS: Final = re.compile(r"\b(?:evt|fact)_[0-9A-HJKMNP-TV-Z]{26}\b")
_RECALL: Final = "recall"
_SERVER_MARK: Final = "__"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Text that others wrote: what it is called, and what it says."""

    name: str
    text: str


def find_effects(tool: Tool, access: Access) -> frozenset[Effect]:
    """What a call of a tool may do that can't be taken back, with the access of its run."""
    is_private = access.level == "owner" and access.memory == "all"
    if tool.name == BASH.name:
        return frozenset({"send"}) if access.network else frozenset()
    if tool.name == send_file.NAME:
        # What the owner gets when nobody else reads along leaves nobody's hands.
        return frozenset() if is_private else frozenset({"send"})
    return tool.effects


async def find_source(
    ledgers: Ledgers, request: Request, session_label: str, tools: Iterable[Tool]
) -> Source | None:
    """Other people's text that a run may have read; None where the owner wrote all of it.

    The whole conversation counts, and all that works for it: what a worker read is in its result.
    """
    asked = await ledgers.agents.read(_requests_of, session_label=session_label)
    authors = await ledgers.runtime.read(requests.parties, request_ids=[*asked, request.request_id])
    roots = {request.root_request_id, *(author.root_request_id for author in authors.values())}
    below = await ledgers.runtime.read(requests.enriched, root_request_ids=sorted(roots))
    working = sorted({*below, *authors, request.request_id})

    readers = {tool.name for tool in tools if tool.reads_others}
    if request.access.network:
        readers.add(BASH.name)
    results, recalled = await ledgers.agents.read(_results, request_ids=working, tools=readers)
    found = [*results, *await ledgers.agents.read(_searches, request_ids=working)]

    lineage = await ledgers.runtime.read(requests.parties, request_ids=sorted(roots))
    for author in sorted(lineage.values(), key=lambda each: each.created_at, reverse=True):
        said = await ledgers.events.read(events.get, event_id=author.event_id or "")
        if author.access.level != "owner":
            found.append(_message(said) if said else Source(name="somebody else's message", text=""))
        elif said is not None:
            files = await ledgers.events.read(events.attachments_of, event_id=said.id)
            found += [Source(name=f"the attached file {file.name}", text=said.content) for file in files]
            found += _quotes(said)

    memories = [str(added.get("memories") or "") for added in below.values()]
    found += await _memories(ledgers, [*memories, *recalled])
    added = [context for each in below.values() if (context := each.get("context"))]
    found += [
        Source(name="what automations added", text=json.dumps(each, ensure_ascii=False)) for each in added
    ]
    return _joined(found)


def _joined(found: list[Source]) -> Source | None:
    if not found:
        return None
    distinct = {each.name: each for each in found}
    named = list(distinct.values())[:_MOST_NAMED]
    more = len(distinct) - len(named)
    names = "; ".join(each.name for each in named) + (f"; and {more} more" if more else "")
    text = "\n\n".join(f"{each.name}:\n{each.text}" for each in named) if len(named) > 1 else named[0].text
    return Source(name=names, text=text)


def _requests_of(connection: apsw.Connection, session_label: str) -> list[str]:
    rows = connection.execute(sql.queries("agents")["requests_in_lineage"], (session_label,))
    return [cast("str", row[0]) for row in rows]


def _results(
    connection: apsw.Connection, request_ids: Collection[str], tools: Collection[str]
) -> tuple[list[Source], list[str]]:
    """What tools gave that others may have written, the newest first; and what was recalled."""
    values = {
        "requests": json.dumps(list(request_ids)),
        "tools": json.dumps([*tools, _RECALL]),
        "mark": _SERVER_MARK,
    }
    rows = connection.execute(sql.queries("agents")["results_of_others"], values)
    found, recalled = list[Source](), list[str]()
    for tool, arguments, result in cast("Any", rows):
        if tool == _RECALL:
            recalled.append(result)
        else:
            found.append(Source(name=f"the result of {tool} {_shortened(arguments)}", text=result))
    return found, recalled


def _searches(connection: apsw.Connection, request_ids: Collection[str]) -> list[Source]:
    """Answers for which a provider searched the web itself."""
    rows = connection.execute(sql.queries("agents")["answers_with_search"], (json.dumps(list(request_ids)),))
    return [Source(name="a web search by the provider", text=str(row[0])) for row in rows]


async def _memories(ledgers: Ledgers, texts: Iterable[str]) -> list[Source]:
    """Those of the memories in some texts that others said."""
    ids = {id_ for text in texts for id_ in _MEMORY_IDS.findall(text)}
    if not ids:
        return []
    query, values = sql.queries("memory")["events_of_facts"], (json.dumps(sorted(ids)),)
    learned = await ledgers.memory.read(sql.rows, query, values)
    event_ids = {each for each in ids if each.startswith("evt_")} | {str(row[0]) for row in learned}
    found: list[Source] = []
    for event_id in sorted(event_ids, reverse=True):
        said = await ledgers.events.read(events.get, event_id=event_id)
        if said is None or said.direction == "outbound":
            continue
        sender = await ledgers.identity.read(senders.find, channel=said.channel, identifier=said.sender or "")
        found += [_message(said)] if sender is None or not sender.is_owner else _quotes(said)
    return found


def _message(event: Event) -> Source:
    by = f"a message from {event.sender or 'somebody'} on {event.channel} ({event.occurred_at[:16]})"
    return Source(name=by, text=event.content)


def _quotes(event: Event) -> list[Source]:
    """What a message of the owner's quotes or forwards."""
    return [
        Source(name=f"what {quote.author or 'somebody'} wrote, in a message of yours", text=quote.text)
        for quote in split_quotes(event.content)[1]
    ]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ARGUMENTS else f"{line[: _ARGUMENTS - 1]}…"
