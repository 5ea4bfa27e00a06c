"""Titles and summaries of episodes that no writer has described, from what was said in them.

The sentences that tell an episode apart are those with words that are rare in the home and with names.
Whoever reads an episode that has no title yet gets its digest; making episodes stores it.
"""

# ruff: noqa: RUF001 - the signs of other scripts are meant

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus import clock
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.identity.senders import normalize_name
from nexus.ledgers.sql import rows
from nexus.ledgers.text import match_any
from nexus.memory.languages import DEFAULT, detect
from nexus.memory.languages.cues import compile_cue
from nexus.memory.languages.speech import sentences
from nexus.memory.references import find_called
from nexus.text import join_lines

_EPISODES_A_ROUND: Final = 200
_EVENTS_AN_EPISODE: Final = 200
_CHARACTERS_AN_EVENT: Final = 4_000

_TITLE_CHARACTERS: Final = 80
_SUMMARY_CHARACTERS: Final = 320
_SUMMARY_SENTENCES: Final = 4
_SHORTEST_CLAUSE: Final = 20
# A sentence that is worth less than this share of the best one adds nothing to a summary.
_WORTH_TELLING: Final = 0.4

# Beyond so many messages with a word, it is common.
_COMMON: Final = 1_000
_NAME_WEIGHT: Final = 0.8
_NUMBER_WEIGHT: Final = 0.4
_FIRST_MESSAGE: Final = 1.5  # it says what the conversation is about
_AGENT: Final = 0.6  # answers repeat the question, at length

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
# What an e-mail quotes below its own text, and the signature.
_REPLY: Final = re.compile(
    r"(?m)^(?:On [^\n]{8,120} wrote:|Am [^\n]{8,120} schrieb[^\n]{0,80}:|-- ?)$[\s\S]*"
)
_UNTOLD_LINE: Final = re.compile(r"(?m)^\s*(?:>|\||[-=*_]{3,}\s*$).*$")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ADDRESS: Final = re.compile(r"<?\bhttps?://\S+>?")
_MARKER: Final = re.compile(r"(?m)^\s*(?:#{1,6}|[-*•+]|\d{1,2}[.)])\s+")
_EMPHASIS: Final = re.compile(r"\*\*|__|`")
_UNSPACED_END: Final = re.compile(r"(?<=[。！？])(?=[^\s」』])")
# A line that a mail program has broken goes on.
_BROKEN_LINE: Final = re.compile(r"(?<![.!?…:;。！？\n])\n(?=[^\W\d_A-Z])")
_CLAUSE_END: Final = re.compile(r"(?<=[,;:])\s+|\s+(?=(?:[–—-]|and|und|et|y|e)\s)|(?<=[、，；：])")
_ENDING: Final = " ,;:–—-、，；：.。"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What somebody said in an episode. Without a speaker, it is the owner's word."""

    speaker: str | None
    text: str
    name: str = ""
    """What the speaker is called in a summary, the owner too."""
    is_agent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """A title and a summary; neither is ever blank."""

    title: str
    summary: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sentence:
    text: str
    place: int
    message: Message
    words: frozenset[str]
    value: float


Weigh = Callable[[str], float]
"""How rare a word is in the home, from 0 (everywhere) to 1 (nowhere else)."""


def digest(messages: Sequence[Message], weigh: Weigh) -> Digest | None:
    """Find the most telling sentences of a conversation; None if it has no words."""
    found = _told_sentences(messages, weigh)
    if not found:
        return None
    best = max(found, key=lambda each: (each.value * _prior(each), -each.place))
    chosen, length, words = [best], len(best.text), set(best.words)
    for each in sorted(found, key=lambda each: -each.value):
        if len(chosen) == _SUMMARY_SENTENCES:
            break
        is_news = len(each.words - words) >= len(each.words) / 2
        fits = length + len(each.text) <= _SUMMARY_CHARACTERS
        if each is not best and is_news and fits and each.value >= _WORTH_TELLING * best.value:
            chosen.append(each)
            length += len(each.text)
            words |= each.words
    title = _shorten(best.text, _TITLE_CHARACTERS).rstrip(_ENDING)
    if best.message.speaker:
        title = f"{best.message.speaker}: {title}"
    return Digest(title=title, summary=_join(sorted(chosen, key=lambda each: each.place)))


def _told_sentences(messages: Sequence[Message], weigh: Weigh) -> list[_Sentence]:
    """Find the sentences that say something, each with what it is worth."""
    # Imported at first use: recall brings numpy, which takes longer to import than most commands to run.
    from nexus.memory.recall.words import forms, function_words

    found: list[_Sentence] = []
    first = next((each for each in messages if each.text.strip()), None)
    for message in messages:
        text = _plain(message.text)
        language = detect(text, DEFAULT)
        for sentence in sentences(text):
            words = forms(sentence, language)
            empty = function_words(language)
            weights = {
                word: _weigh_form(form, sentence, weigh) for word, form in words.items() if word not in empty
            }
            if not weights or not any(character.isalpha() for character in sentence):
                continue
            value = sum(weights.values()) / math.sqrt(len(weights) + 3)
            value *= (_FIRST_MESSAGE if message is first else 1.0) * (_AGENT if message.is_agent else 1.0)
            found.append(
                _Sentence(
                    text=sentence, place=len(found), message=message, words=frozenset(weights), value=value
                )
            )
    return found


def _weigh_form(form: str, sentence: str, weigh: Weigh) -> float:
    if form.isdigit():
        return _NUMBER_WEIGHT
    is_name = form[:1].isupper() and not sentence.startswith(form)
    return max(weigh(form), _NAME_WEIGHT if is_name else 0.0)


def _prior(sentence: _Sentence) -> float:
    """Weigh a sentence as a title: it needs no cut and nothing before it to be understood."""
    fits = 1.0 if len(sentence.text) <= _TITLE_CHARACTERS else 0.85
    return fits * (0.5 if compile_cue("refers_back").match(sentence.text) else 1.0)


def _plain(text: str) -> str:
    """Strip a message of code, quotations, addresses and marks."""
    text = _REPLY.sub("", _CODE.sub("\n", text.replace("\r\n", "\n")))
    text = _LINK.sub(r"\1", _UNTOLD_LINE.sub("", text))
    text = _EMPHASIS.sub("", _MARKER.sub("", _ADDRESS.sub("", text)))
    return _BROKEN_LINE.sub(" ", _UNSPACED_END.sub("\n", text))


def _join(chosen: Sequence[_Sentence]) -> str:
    """Sentences in order, with who says them where the speaker changes."""
    parts: list[str] = []
    last: Message | None = None
    for each in chosen:
        text = _shorten(each.text, _SUMMARY_CHARACTERS)
        text = text if text[-1] in '.!?…。！？"”»」' else f"{text.rstrip(_ENDING)}."
        is_same = last is not None and last.name == each.message.name
        parts.append(text if is_same or not each.message.name else f"{each.message.name}: {text}")
        last = each.message
    return " ".join(parts)


def _shorten(text: str, most: int) -> str:
    """Shorten a text to its first clauses, or else its first words."""
    text = join_lines(text)
    if len(text) <= most:
        return text
    end = 0
    for match in _CLAUSE_END.finditer(text):
        if match.start() > most:
            break
        end = match.start()
    if end >= _SHORTEST_CLAUSE:
        return text[:end].rstrip(_ENDING)
    words = text[: most - 1]
    # Scripts without spaces may be cut anywhere.
    return (words.rpartition(" ")[0] or words).rstrip(_ENDING) + "…"


@dataclass(frozen=True, slots=True)
class _Blank:
    """An episode that lacks a title or a summary."""

    id: str
    title: str | None
    summary: str | None
    channel: str
    start_time: str
    event_ids: list[str]


def make_digests(connection: apsw.Connection, episode_ids: Iterable[str]) -> dict[str, Digest]:
    """Make title and summary of each of these episodes that lacks one; what a writer gave it is kept.

    The connection reads all ledgers, as that of `Ledgers.read`.
    """
    wanted = json.dumps(list(episode_ids))
    if wanted == "[]":
        return {}
    query = sql.queries("memory")["blank_episodes"]
    found = rows(connection, query, {"ids": wanted, "most": _EVENTS_AN_EPISODE})
    blank = [
        _Blank(**dict(zip(_Blank.__slots__, (*row[:5], json.loads(row[5])), strict=True))) for row in found
    ]
    if not blank:
        return {}
    given = {
        "ids": json.dumps([id_ for episode in blank for id_ in episode.event_ids]),
        "most": _CHARACTERS_AN_EVENT,
    }
    said = rows(connection, sql.queries("events")["said"], given)
    speakers = _speakers(connection, {(row[7], row[3]) for row in said if row[3]})
    return _digest_each(connection, blank, said, speakers)


async def describe_episodes(ledgers: Ledgers, episode_ids: Sequence[str] | None = None) -> int:
    """Store the digests of episodes that lack a title or a summary; of all in the home if none are named."""
    after, described = "", 0
    while True:
        if episode_ids is None:
            query = sql.queries("memory")["undescribed_episodes"]
            found = await ledgers.memory.read(rows, query, (after, _EPISODES_A_ROUND))
            ids = [str(row[0]) for row in found]
        else:
            ids, episode_ids = list(episode_ids[:_EPISODES_A_ROUND]), episode_ids[_EPISODES_A_ROUND:]
        if not ids:
            return described
        made = await ledgers.read(make_digests, ids)
        values = [{"id": id_, "title": each.title, "summary": each.summary} for id_, each in made.items()]
        statement = sql.queries("memory")["describe_episode"]
        await ledgers.memory.write(sql.run_each, statement, values)
        after, described = ids[-1], described + len(made)


def _digest_each(
    connection: apsw.Connection,
    blank: Sequence[_Blank],
    said: Sequence[tuple[Any, ...]],
    speakers: dict[tuple[str, str], tuple[str, bool]],
) -> dict[str, Digest]:
    messages = {row[1]: _message(row, speakers) for row in said}
    weigh = _Rarity(connection).weigh
    made: dict[str, Digest] = {}
    for episode in blank:
        heard = [messages[id_] for id_ in episode.event_ids if id_ in messages]
        title, summary = (episode.title or "").strip(), (episode.summary or "").strip()
        own = [Message(speaker=None, text=summary)] if summary else heard
        found = digest(own, weigh) or _without_words(episode, heard)
        made[episode.id] = Digest(title=title or found.title, summary=summary or found.summary)
    return made


def _without_words(episode: _Blank, heard: Sequence[Message]) -> Digest:
    """Describe a conversation that says nothing: who, where and when."""
    names = list(dict.fromkeys(each.speaker for each in heard if each.speaker and not each.is_agent))
    with_whom = f" with {', '.join(names[:3])}" if names else ""
    day = clock.parse(episode.start_time)
    text = " ".join(join_lines(each.text) for each in heard if each.text.strip())
    count = "1 message" if len(heard) == 1 else f"{len(heard)} messages"
    return Digest(
        title=f"Conversation{with_whom} on {episode.channel}, {day:%Y-%m-%d}",
        summary=_shorten(text, _SUMMARY_CHARACTERS) or f"{count} without text.",
    )


def _message(row: tuple[Any, ...], speakers: dict[tuple[str, str], tuple[str, bool]]) -> Message:
    _, _, direction, sender, content, _, _, channel = row
    name, is_owner = speakers.get((channel, sender or ""), ("", False))
    is_agent = direction == "outbound" and not name
    shown = name or (str(sender or "").capitalize() if is_agent else str(sender or ""))
    return Message(speaker=None if is_owner else shown, name=shown, text=content, is_agent=is_agent)


def _speakers(
    connection: apsw.Connection, senders: set[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, bool]]:
    """For each channel and sender that is known: the name of who that is, and whether it is the owner."""
    queries = sql.queries("identity")
    keys = json.dumps([(channel, normalize_name(sender)) for channel, sender in sorted(senders)])
    contacts = {(row[0], row[1]): row[2] for row in rows(connection, queries["senders_named"], (keys,))}
    ids: dict[tuple[str, str], str] = {}
    for channel, sender in senders:
        contact = contacts.get((channel, normalize_name(sender)))
        found = [str(contact)] if contact else find_called(connection, sender)
        if len(found) == 1:
            ids[channel, sender] = found[0]
    named = rows(connection, queries["names_of"], (json.dumps(sorted(set(ids.values()))),))
    roots = {str(start): (str(root), str(name)) for start, root, name in named}
    owner = connection.execute(queries["owner"]).get
    return {key: (roots[id_][1], roots[id_][0] == owner) for key, id_ in ids.items() if id_ in roots}


@dataclass(slots=True)
class _Rarity:
    """How rare words are among the messages of a home; each is looked up once."""

    connection: apsw.Connection
    _known: dict[str, float] = field(default_factory=dict[str, float])
    _messages: int = 0

    def weigh(self, form: str) -> float:
        key = form.lower()
        if key not in self._known:
            self._known[key] = self._look_up(key)
        return self._known[key]

    def _look_up(self, form: str) -> float:
        queries = sql.queries("events")
        if not self._messages:
            self._messages = max(2, cast("int", self.connection.execute(queries["newest_seq"]).get or 0))
        ((holding, _),) = rows(self.connection, queries["newest_matches"], (match_any([form]), _COMMON))
        return math.log(self._messages / max(1, holding)) / math.log(self._messages)
