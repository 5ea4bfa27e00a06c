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

from nexus.broker.tools import BASH, Effect, Tool, files
from nexus.context.wrapping import split_quotes
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import Event
from nexus.ledgers.identity import senders
from nexus.ledgers.runtime import requests
from nexus.memory.correction import SPEAKER
from nexus.request import Access, Request
from nexus.text import join_lines, shorten

_MOST_NAMED: Final = 4
_ARGUMENTS: Final = 120
_MEMORY_IDS: Final = re.compile(r"\b(?:evt|fact|epi|obs|mod)_[0-9A-HJKMNP-TV-Z]{26}\b")
_SERVER_MARK: Final = "__"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Text that others wrote: what it is called, and what it says."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Readers:
    """The names of the tools that return what others may have written."""

    others: frozenset[str]
    """Their own text, such as a web page."""
    memory: frozenset[str]
    """Memories, whose ids tell who wrote what they rest on."""


_BASH: Final = _Readers(others=frozenset({BASH.name}), memory=frozenset())


def find_effects(tool: Tool, access: Access) -> frozenset[Effect]:
    """What a call of a tool may do that can't be taken back, with the access of its run."""
    is_private = access.level == "owner" and access.memory == "all"
    if tool.name == BASH.name:
        return frozenset({"send"}) if access.network else frozenset()
    if tool.name == files.SEND_FILE:
        # What the owner gets when nobody else reads along leaves nobody's hands.
        return frozenset() if is_private else frozenset({"send"})
    return tool.effects


async def find_source(
    ledgers: Ledgers, request: Request, session_label: str, tools: Iterable[Tool], access: Access
) -> Source | None:
    """Other people's text that a run may have read; None where the owner wrote all of it.

    The whole conversation counts, and all that works for it: what a worker read is in its result, and what
    the conversation read may be in the worker's task.
    """
    labels = await ledgers.runtime.read(_labels_above, request=request)
    asked = await _find_asked(ledgers, {session_label, *labels})
    authors = await ledgers.runtime.read(requests.parties, request_ids=[*asked, request.request_id])
    roots = {request.root_request_id, *(author.root_request_id for author in authors.values())}
    below = await ledgers.runtime.read(requests.load_enrichments, root_request_ids=sorted(roots))
    working = sorted({*below, *authors, request.request_id})

    tools = list(tools)
    readers = _Readers(
        others=frozenset(tool.name for tool in tools if tool.reads_others),
        memory=frozenset(tool.name for tool in tools if tool.reads_memory),
    )
    found, recalled = await _find_results(ledgers, working, readers)
    if access.network:
        found += (await ledgers.agents.read(_results, [request.request_id], _BASH))[0]

    lineage = await ledgers.runtime.read(requests.parties, request_ids=sorted(roots))
    for author in sorted(lineage.values(), key=lambda each: each.created_at, reverse=True):
        said = await ledgers.events.read(events.get, event_id=author.event_id or "")
        if author.access.level != "owner":
            found.append(_message(said) if said else Source(name="somebody else's message", text=""))
        elif said is not None:
            files = await ledgers.events.read(events.attachments_of, event_id=said.id)
            # What the owner says in a voice note is the owner's, as what the owner writes is.
            read = [file for file in files if not file.is_audio]
            found += [Source(name=f"the attached file {file.name}", text=said.content) for file in read]
            found += _quotes(said)

    memories = [str(added.get("memories") or "") for added in below.values()]
    found += await _memories(ledgers, [*memories, *recalled], readers)
    added = [context for each in below.values() if (context := each.get("context"))]
    found += [
        Source(name="what automations added", text=json.dumps(each, ensure_ascii=False)) for each in added
    ]
    return _join(found)


def _labels_above(connection: apsw.Connection, request: Request) -> list[str]:
    """The sessions of the requests that led to one."""
    known = {each.id: each for each in requests.lineage(connection, request.root_request_id)}
    labels, above = list[str](), known.get(request.request_id)
    while above is not None:
        labels += [above.session_label] if above.session_label else []
        above = known.get(above.parent_request_id or "")
    return labels


async def _find_asked(ledgers: Ledgers, labels: Iterable[str]) -> list[str]:
    """The requests that some sessions have worked on."""
    given = (json.dumps(sorted(labels)),)
    turns = await ledgers.agents.read(sql.rows, sql.queries("agents")["requests_in_lineage"], given)
    runs = await ledgers.runtime.read(sql.rows, sql.queries("runtime")["requests_in_sessions"], given)
    return list({str(row[0]) for row in (*turns, *runs)})


async def _find_results(
    ledgers: Ledgers, request_ids: list[str], readers: _Readers
) -> tuple[list[Source], list[str]]:
    """What tools gave to some requests that others may have written; and what was recalled."""
    results, recalled = await ledgers.agents.read(_results, request_ids, readers)
    known = await ledgers.runtime.read(requests.parties, request_ids=request_ids)
    networked = [id_ for id_, each in known.items() if each.access.network]
    downloaded, _ = await ledgers.agents.read(_results, networked, _BASH)
    searches = await ledgers.agents.read(_searches, request_ids=request_ids)
    return [*results, *downloaded, *searches], recalled


def _join(found: list[Source]) -> Source | None:
    if not found:
        return None
    distinct = {each.name: each for each in found}
    named = list(distinct.values())[:_MOST_NAMED]
    more = len(distinct) - len(named)
    names = "; ".join(each.name for each in named) + (f"; and {more} more" if more else "")
    text = "\n\n".join(f"{each.name}:\n{each.text}" for each in named) if len(named) > 1 else named[0].text
    return Source(name=names, text=text)


def _results(
    connection: apsw.Connection, request_ids: Collection[str], readers: _Readers
) -> tuple[list[Source], list[str]]:
    """What tools gave that others may have written, the newest first; and what was recalled."""
    values = {
        "requests": json.dumps(list(request_ids)),
        "tools": json.dumps([*readers.others, *readers.memory]),
        "mark": _SERVER_MARK,
    }
    rows = connection.execute(sql.queries("agents")["results_of_others"], values)
    found, recalled = list[Source](), list[str]()
    for tool, arguments, result in cast("Any", rows):
        if tool in readers.memory:
            recalled.append(result)
        else:
            found.append(
                Source(name=f"the result of {tool} {shorten(join_lines(arguments), _ARGUMENTS)}", text=result)
            )
    return found, recalled


def _searches(connection: apsw.Connection, request_ids: Collection[str]) -> list[Source]:
    """Answers for which a provider searched the web itself."""
    rows = connection.execute(sql.queries("agents")["answers_with_search"], (json.dumps(list(request_ids)),))
    return [Source(name="a web search by the provider", text=str(row[0])) for row in rows]


async def _memories(ledgers: Ledgers, texts: Iterable[str], readers: _Readers) -> list[Source]:
    """Those of the memories in some texts that rest on more than the owner's own words."""
    ids = {id_ for text in texts for id_ in _MEMORY_IDS.findall(text)}
    if not ids:
        return []
    query, values = sql.queries("memory")["sources_of_memories"], (json.dumps(sorted(ids)),)
    rows = await ledgers.memory.read(sql.rows, query, values)
    found: list[Source] = []
    looked_into: set[tuple[str, str | None]] = set()
    for id_, event_id, speaker, fact in sorted(
        cast("Any", rows), key=lambda row: (row[0], row[1] or ""), reverse=True
    ):
        source = id_ if id_.startswith("evt_") else event_id
        if source is None:
            if fact is not None:
                concluded = id_.startswith("mod_")
                name = f"what {speaker} concluded" if concluded else "a memory whose source isn't recorded"
                found.append(Source(name=name, text=fact))
            continue
        said = await ledgers.events.read(events.get, event_id=source)
        if said is None:
            found.append(Source(name="a memory of a forgotten message", text=fact or ""))
        elif said.direction == "outbound":
            # An episode has many answers of one conversation.
            if (conversation := (said.channel, said.thread_id)) not in looked_into:
                looked_into.add(conversation)
                found += await _find_read_in(ledgers, said, readers)
        else:
            identifier = said.sender or ""
            sender = await ledgers.identity.read(senders.find, channel=said.channel, identifier=identifier)
            if sender is None or not sender.is_owner:
                found.append(_message(said))
            elif fact is None:
                found += _quotes(said)
            elif speaker not in {None, SPEAKER, said.sender}:
                found.append(Source(name=f"what the memory has from {speaker}", text=fact))
    return found


async def _find_read_in(ledgers: Ledgers, answer: Event, readers: _Readers) -> list[Source]:
    """What was read in the conversation of an answer that is remembered."""
    query, values = sql.queries("runtime")["requests_in_thread"], (answer.channel, answer.thread_id)
    asked = [str(row[0]) for row in await ledgers.runtime.read(sql.rows, query, values)]
    below = await ledgers.runtime.read(requests.load_enrichments, root_request_ids=asked)
    return (await _find_results(ledgers, sorted(below), readers))[0]


def _message(event: Event) -> Source:
    by = f"a message from {event.sender or 'somebody'} on {event.channel} ({event.occurred_at[:16]})"
    return Source(name=by, text=event.content)


def _quotes(event: Event) -> list[Source]:
    """What a message of the owner's quotes or forwards."""
    return [
        Source(name=f"what {quote.author or 'somebody'} wrote, in a message of yours", text=quote.text)
        for quote in split_quotes(event.content)[1]
    ]
