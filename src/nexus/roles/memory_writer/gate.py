"""The memory writer's own rules at the gate: what is news, and on whose word it is written.

Its instructions ask for all of this as well. But a model reads other people's words while it writes, so
nothing that counts is left to it: who said something, what is only remembered, and who somebody is.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, memory, sql
from nexus.memory.gate import HEARSAY, MERGES, TEXTS
from nexus.memory.languages import speech
from nexus.memory.normalisation import IDENTIFYING, normalize, split_type
from nexus.memory.operations import OPERATIONS
from nexus.memory.references import find_meant, is_known
from nexus.roles.memory_writer.evidence import Evidence, Finding, Referred
from nexus.roles.memory_writer.turns import Message

_STATEMENTS: Final = frozenset({"fact", "relationship", "person-fact"})
_CHANGES: Final = frozenset({"describe", "alias", "entity"})
_REFERENCES: Final = ("about", "source", "target", "entity")
_MOST_WRITES: Final = 200
_LEAVE: Final = "Write what the turns themselves say, in their words and with their names, numbers and dates."
_BETWEEN_DIGITS = re.compile(r"[\s().\-/]")
# A number is written with its country, or without.
_DIGITS = 8
# What a writer may say of its sources itself: these claim less than what the ledgers tell.
_WEAKER: Final = frozenset({"inferred", "observed"})


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a statement comes from."""

    message: Message | None
    """The message that says it, or that is nearest to what a tool gave."""
    tool: str | None = None
    author: str = ""
    """Who wrote it, where the message only quotes it."""
    is_said: bool = False
    """Whether the message itself says it."""

    @property
    def is_owners(self) -> bool:
        return self.is_said and self.message is not None and self.message.is_owners

    @property
    def speaker(self) -> str | None:
        """The entity of whoever said it."""
        return (
            self.message.sender.entity_id if self.is_said and self.message and self.message.sender else None
        )


@dataclass(kw_only=True)
class Gate:
    """The rules of one run of the writer, asked by `nexus.memory.gate`."""

    ledgers: Ledgers
    messages: Sequence[Message]
    """What people said in the turns that it works on."""
    conversation: Sequence[Message]
    """What people said in all that it is shown, the oldest first."""
    evidence: Evidence
    is_owners: bool = False
    """Whether nobody but the owner speaks in the conversation."""
    is_delegated: bool = False
    """Whether what people said is written from the turn of another agent, which gave this one its task."""
    meant: frozenset[str] = frozenset()
    """Entities that the messages mean without naming them: "my sister"."""
    phone_region: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])
    refusals: list[str] = field(default_factory=list[str])
    named: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The names of entities that were to be made in this run, by their ids."""
    made: set[str] = field(default_factory=set[str])
    """Those that could be."""

    def __post_init__(self) -> None:
        # Who is quoted speaks as well.
        self.is_owners = self.is_owners and not any(each.quoted_in for each in self.evidence.heard)

    def note_refusal(self, operation: str, reason: str) -> None:
        self.refusals.append(f"{operation}: {reason}")

    def note_write(self, operation: str, arguments: Mapping[str, Any]) -> None:
        self.counts[operation] += 1

    def note_recall(self, answer: Mapping[str, Any]) -> None:
        """Remember what the writer looked up: that is memory as well."""
        results = cast("list[dict[str, Any]]", answer.get("results", []))
        self.evidence.remember(str(each["text"]) for each in results if each.get("kind") != "event")

    async def admit(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check a write, and give its arguments with the sources that the ledgers tell."""
        given = dict(arguments)
        if operation not in OPERATIONS:
            return given  # the memory says what there is
        if self.counts.total() >= _MOST_WRITES:
            raise UsageError(f"{_MOST_WRITES} writes are enough for one turn", hint="End your work here.")
        if operation == "entity" and isinstance(given.get("id"), str):
            called = [str(given.get("name") or ""), *(text for text, _ in _list_aliases(given))]
            self.named[given["id"]] = tuple(filter(None, called))
        cited = self._find_cited(given)
        who = await self._resolve_references(operation, given)
        # Comparing with a long conversation takes its time.
        finding = await asyncio.to_thread(self._find_evidence, operation, given, who, cited)
        last = self.messages[-1] if self.messages else None
        found = find_source(finding, cited or last, self.conversation)
        self._check_rights(operation, given, found, who)
        await asyncio.to_thread(self._check_texts, operation, given, who)
        given.pop("request", None)
        if operation in _STATEMENTS or operation == "entity":
            given["event"] = found.message.event.id if found.message else None
        if operation in _STATEMENTS:
            if finding.refusal:
                raise UsageError(finding.refusal, hint=_LEAVE)
            if cited and found.message and given.get("as_of") == cited.event.occurred_at:
                given["as_of"] = found.message.event.occurred_at
            await self._check_news(given, found)
            attribute(operation, given, found, who.about)
            await self._supersede(operation, given, finding)
        if operation == "episode":
            self._check_events(given)
        if operation == "entity" and isinstance(given.get("id"), str):
            self.made.add(given["id"])
        if operation == "describe":
            given.pop("event", None)
        return {name: value for name, value in given.items() if value is not None}

    def _find_cited(self, given: Mapping[str, Any]) -> Message | None:
        """Find the message that something is said to be learned from; None if none is named."""
        asked = given.get("event")
        if asked is None:
            return None
        for message in self.conversation:
            if message.event.id == asked:
                return message
        known = ", ".join(message.event.id for message in self.messages) or "none"
        raise UsageError(f"{asked!r} is not a message of these turns", hint=f"There are: {known}.")

    def _find_evidence(
        self, operation: str, given: Mapping[str, Any], who: "_Who", asked: Message | None
    ) -> Finding:
        """Find what says it. Values of hard facts are too short to be told apart by their words."""
        texts = [str(given.get(name) or "") for name in TEXTS.get(operation, ())[:1]]
        texts += [text for text, _ in _list_aliases(given)] if operation == "alias" else []
        cited = next((each for each in self.evidence.heard if each.message is asked and asked), None)
        if operation in _STATEMENTS:
            return self.evidence.find(" ".join(texts), who.referred, cited)
        names = [name for each in who.referred for name in each.names]
        heard = self.evidence.find_supporter(" ".join(texts), names, asked and asked.event.id)
        return Finding(heard=cited or heard)

    async def _resolve_references(self, operation: str, given: Mapping[str, Any]) -> "_Who":
        named = [str(given[name]) for name in _REFERENCES if isinstance(given.get(name), str)]
        if operation == "entity" and isinstance(given.get("id"), str):
            id_ = str(given["id"])
            is_made = await self.ledgers.identity.read(is_known, entity_id=id_)
            return _Who(about=id_ if is_made else None)
        found = await self.ledgers.identity.read(_find_who, named=named, phone_region=self.phone_region)
        return replace(found, referred=tuple(map(self._grant, found.referred)))

    def _grant(self, referred: Referred) -> Referred:
        """Grant who speaks, whom the messages mean and who was made in this run without their names."""
        if referred.id in self.named:
            return replace(referred, names=self.named[referred.id])
        speakers = {message.sender.entity_id for message in self.conversation if message.sender}
        is_speaker = referred.id is not None and referred.id in speakers
        is_word = len(referred.names) == 1 and speech.is_first_person(referred.names[0])
        return replace(referred, granted=is_speaker or is_word or referred.id in self.meant)

    def _check_rights(self, operation: str, given: Mapping[str, Any], found: Source, who: "_Who") -> None:
        if operation in MERGES and (not self.is_owners or who.senders):
            raise UsageError(
                "These may be two people who write to you, and are not made one here",
                hint="Leave it: they are shown to the owner as merge candidates.",
            )
        if (
            operation == "describe"
            and given.get("name")
            and (found.speaker is None or who.about != found.speaker)
        ):
            raise UsageError(
                "Only people themselves say what they are called",
                hint="Give another name of somebody as an `alias`.",
            )
        if operation in _CHANGES and not (self.is_owners or found.is_owners):
            self._check_change(operation, given, found, who)

    def _check_change(self, operation: str, given: Mapping[str, Any], found: Source, who: "_Who") -> None:
        """Let other people change only themselves and whom they brought up first."""
        if operation == "entity" and who.about is None:
            return
        reference = str(given.get("id" if operation == "entity" else "entity", ""))
        is_own = who.about is not None and who.about == found.speaker
        if not is_own and reference not in self.made:
            raise UsageError(
                "Only the owner's words change what somebody else is called or said to be",
                hint="Write it as a `fact`: it is then kept as what was said, and by whom.",
            )

    def _check_texts(self, operation: str, given: Mapping[str, Any], who: "_Who") -> None:
        named = _list_aliases(given) if operation in _CHANGES else []
        names = [name for each in who.referred for name in each.names]
        texts = [str(given[name]) for name in TEXTS.get(operation, ()) if given.get(name)]
        if operation not in _STATEMENTS:
            for text in texts:
                if self.evidence.find_memory_behind(text, names):
                    raise UsageError("This is a memory, and nobody said it in these turns", hint=_LEAVE)
                is_name = text == given.get("name")
                if is_name and operation == "entity" and who.about is not None:
                    continue  # it is known by that id, and has that name
                missing = (
                    self.evidence.find_unsaid("", [Referred(names=(text,))])
                    if is_name
                    else self.evidence.find_unsaid(text, who.referred)
                )
                if missing and not (is_name and text in _list_senders(self.conversation)):
                    raise UsageError(f"Nobody said {missing!r} here", hint=_LEAVE)
        said = [*(heard.text for heard in self.evidence.heard), *_list_senders(self.conversation)]
        for alias, type_ in named:
            if not _stands_in(said, alias, type_):
                raise UsageError(f"Nobody wrote {alias!r} here", hint="Give an alias as it was written.")

    async def _check_news(self, given: Mapping[str, Any], found: Source) -> None:
        if self.is_delegated and found.is_said:
            raise UsageError(
                "This was said to the agent that gave the task, and is written from its turn",
                hint="Write what was found out in this one.",
            )
        event_id, fact = given.get("event"), given.get("fact")
        if not event_id or not isinstance(fact, str):
            return
        if await self.ledgers.memory.read(memory.is_learned, event_id=str(event_id), fact=fact):
            raise UsageError(
                "This is written already, from the same message", hint="Leave it out, write the rest."
            )

    async def _supersede(self, operation: str, given: dict[str, Any], finding: Finding) -> None:
        """Mark the memory that it differs from as replaced, if that memory is a fact."""
        if operation == "person-fact" or not finding.replaces or given.get("replaces"):
            return
        replaced = await self.ledgers.memory.read(memory.find_told, line=finding.replaces)
        if replaced is not None:
            given["replaces"] = [replaced]

    def _check_events(self, given: dict[str, Any]) -> None:
        listed = given.get("events")
        asked = listed.split(",") if isinstance(listed, str) else cast("list[Any]", listed or [])
        known = [message.event.id for message in self.messages]
        others = [str(each) for each in asked if str(each).strip() not in known]
        if others:
            raise UsageError(
                f"{others[0]!r} is not a message of these turns", hint=f"There are: {', '.join(known)}."
            )
        given["events"] = known


def _list_senders(messages: Sequence[Message]) -> list[str]:
    return [message.event.sender for message in messages if message.event.sender]


@dataclass(frozen=True, kw_only=True)
class _Who:
    """The entities that an operation names, as far as they are known."""

    about: str | None
    referred: tuple[Referred, ...] = ()
    senders: bool = False


def _find_who(connection: apsw.Connection, named: Sequence[str], phone_region: str) -> _Who:
    queries = sql.queries("identity")
    found = [_find_meant(connection, each, phone_region) for each in named]
    known = json.dumps([each for each in found if each])
    called: dict[str, list[str]] = {}
    for id_, name, _ in connection.execute(queries["told_of"], (known,)).fetchall():
        called.setdefault(str(id_), []).append(str(name))
    for id_, alias, *_ in connection.execute(queries["aliases_of"], (known,)).fetchall():
        called.setdefault(str(id_), []).append(str(alias))
    return _Who(
        about=found[0] if found else None,
        referred=tuple(
            Referred(
                id=id_ or name, known=bool(id_), names=tuple(dict.fromkeys(called.get(id_ or "", [name])))
            )
            for name, id_ in zip(named, found, strict=True)
        ),
        senders=any(connection.execute(queries["can_send"], (each,)).get for each in found if each),
    )


def _find_meant(connection: apsw.Connection, reference: str, phone_region: str) -> str | None:
    try:
        return find_meant(connection, reference, phone_region)
    except UsageError:
        return None  # more than one: the memory asks which


def _list_aliases(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the aliases among an operation's arguments, each with its type."""
    listed = given.get("alias")
    items = cast("list[Any]", listed) if isinstance(listed, list) else [listed]
    return [_parse_alias(item) for item in items if item]


def _stands_in(texts: Iterable[str], alias: str, type_: str) -> bool:
    """Whether an alias was written in one of the texts."""
    if type_ == "phone":
        digits = re.sub(r"\D", "", alias)[-_DIGITS:]
        return any(digits in _BETWEEN_DIGITS.sub("", text) for text in texts)
    form = re.escape(normalize(alias, type_))
    # Part of an address is another address; part of a name is a name.
    before, after = (r"[\w.+-]", r"\w|[.-]\w") if type_ in IDENTIFYING else (r"\w", r"\w")
    whole = re.compile(rf"(?<!{before}){form}(?!{after})")
    return any(whole.search(normalize(text)) for text in texts)


def _parse_alias(item: object) -> tuple[str, str]:
    if not isinstance(item, Mapping):
        return split_type(str(item))
    fields = cast("Mapping[str, Any]", item)
    text, guessed = split_type(str(fields.get("alias") or ""))
    return text, str(fields.get("type") or guessed)


def find_source(finding: Finding, asked: Message | None, messages: Sequence[Message]) -> Source:
    """Find the source of a statement by what says it; what nothing says isn't put down to the owner."""
    heard = finding.heard
    if heard is not None and heard.message is not None:
        return Source(message=heard.message, is_said=True)
    others = [message for message in messages if not message.is_owners]
    near = asked if asked in others else None
    if heard is not None and heard.quoted_in is not None:
        return Source(message=heard.quoted_in, author=heard.name)
    return Source(message=near or (others or messages or [None])[-1], tool=heard and heard.tool)


def attribute(operation: str, given: dict[str, Any], found: Source, about: str | None) -> None:
    """Write down who said it, and how sure that makes it."""
    claimed = given.get("source_type")
    is_own = found.speaker is not None and found.speaker == about
    if found.is_said:
        given["source_type"] = claimed if claimed in _WEAKER else "self_disclosed" if is_own else "mentioned"
    else:
        given["source_type"] = "mentioned" if found.author else "observed"
    if not found.is_owners and not is_own:
        given["confidence"] = min(_parse_number(given.get("confidence")), HEARSAY)
    if operation != "person-fact":
        given["metadata"] = _make_metadata(found)


def _make_metadata(found: Source) -> dict[str, Any]:
    if found.author:
        return {"speaker": found.author, "speaker_id": None}
    if found.tool:
        return {"speaker": f"tool:{found.tool}", "speaker_id": None}
    message = found.message
    if message is None or (message.is_owners and not found.is_said):
        return {"speaker": "nexus", "speaker_id": None}
    return {"speaker": message.event.sender, "speaker_id": message.sender and message.sender.entity_id}


def _parse_number(given: object) -> float:
    try:
        return float(cast("Any", given))
    except (TypeError, ValueError):
        return 1.0
