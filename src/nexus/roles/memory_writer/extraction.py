"""What the model is shown and asked in structured mode, and how its answer is read."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from nexus import clock
from nexus.context.wrapping import wrapped
from nexus.errors import UnusableAnswerError
from nexus.memory.languages import speech
from nexus.roles.memory_writer.evidence import Heard, words
from nexus.text import join_lines

_TEXT: Final = {"type": "string"}
HOW: Final = ("corrected", "changed", "cancelled")

# Characters of messages in one call: some six hundred tokens.
_CHUNK: Final = 2_400
MOST_CHUNKS: Final = 4
# Of what was said before, and of what the agent said, the end is what a message refers to.
_REFERENCE: Final = 300
# "Noted." explains nothing.
_TELLING: Final = 4
_TOOL: Final = 1_200

_MOST_FACTS: Final = 60
_LONGEST: Final = 600
_BEGUN: Final = re.compile(r'"(?:facts|people)"\s*:')
_OBJECT: Final = re.compile(r"\{[^{}]*\}")
# What models call the fields if no schema makes them use ours.
_FACT_KEYS: Final = ("fact", "statement", "text", "content", "value")
_ABOUT_KEYS: Final = ("about", "subject", "entity", "who", "person")
_MESSAGE_KEYS: Final = ("message", "message_number", "source", "id", "n")
_NOTE: Final = re.compile(r"\bN?(\d{1,2})\b", re.IGNORECASE)
_ALIAS_KEYS: Final = ("also_called", "alias", "aliases", "nickname", "also")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A numbered message, or a part of a long one."""

    number: int
    heard: Heard
    text: str


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The messages that one call is about."""

    sources: tuple[Source, ...]
    before: tuple[str, ...]


def says_something(heard: Heard) -> bool:
    """Whether a message can teach anything: it states something, or answers what the agent asked."""
    if heard.tool is not None or words(heard.stated):
        return True
    asked = any(clause.asks for clause in speech.clauses(heard.answers))
    return asked and (speech.answers_yes(heard.text) or speech.answers_no(heard.text))


def cut_chunks(
    due: Sequence[Heard], before: Sequence[Heard], most: int = MOST_CHUNKS
) -> tuple[list[Chunk], int]:
    """Cut messages into pieces that fit into a call each; returns how many characters are left unread."""
    parts = (
        (heard, text)
        for heard in due
        for text in _cut_text(heard.text if heard.tool is None else heard.text[:_TOOL])
    )
    sources = [
        Source(number=number, heard=heard, text=text) for number, (heard, text) in enumerate(parts, start=1)
    ]
    found: list[list[Source]] = [[]]
    for source in sources:
        if found[-1] and sum(len(each.text) for each in found[-1]) + len(source.text) > _CHUNK:
            found.append([])
        found[-1].append(source)
    kept, left = found[:most], found[most:]
    # Small models write down again what they are shown: of people only what a pronoun may mean.
    reference = tuple(
        _clip(f"{_name_speaker(each)}: {each.text}")
        for each in before[-1:]
        if due and speech.names_nobody(due[0].text)
    )
    made = [Chunk(sources=tuple(each), before=reference) for each in kept if each]
    return made, sum(len(source.text) for chunk in left for source in chunk)


def write_task(chunk: Chunk, known: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Write the user turn of one call."""
    before = [*chunk.before]
    if len(chunk.sources[0].heard.answers.split()) >= _TELLING:
        before.append(f"assistant (not a source): {_clip(chunk.sources[0].heard.answers)}")
    parts = [
        wrapped("known", "\n".join(known)) if known else "",
        wrapped("notes", "\n".join(notes)) if notes else "",
        wrapped("before", "\n".join(before)) if before else "",
        wrapped("messages", "\n".join(_number_lines(chunk.sources))),
        "What do these messages teach that will still matter in a month? Answer with the JSON object.",
    ]
    return "\n\n".join(filter(None, parts))


def _number_lines(sources: Sequence[Source]) -> Iterator[str]:
    said = sources[0].heard.answers
    for source in sources:
        heard = source.heard
        if len(heard.answers.split()) >= _TELLING and heard.answers != said:
            said = heard.answers
            yield f"assistant (not a source): {_clip(said)}"
        when = ""
        if heard.message is not None:
            at = clock.parse(heard.message.event.occurred_at)
            when = f", {at:%a} {at:%Y-%m-%d %H:%M}"
        yield f"[{source.number}] {_name_speaker(heard)}{when}: {source.text}"


def _name_speaker(heard: Heard) -> str:
    if heard.quoted_in is not None:
        return f"{heard.name} (quoted)"
    if heard.tool is not None:
        return f"tool {heard.tool}"
    assert heard.message is not None  # noqa: S101 - an invariant, for the reader and the type checker
    name = heard.name or heard.message.event.sender or "unknown"
    return (
        "owner"
        if heard.message.is_owners and heard.is_unnamed
        else (f"{name} (owner)" if heard.message.is_owners else name)
    )


def _cut_text(text: str) -> Iterator[str]:
    """Cut a long text between sentences where it has any."""
    if len(text) <= _CHUNK:
        yield text
        return
    piece = ""
    for sentence in speech.sentences(text):
        for start in range(0, len(sentence), _CHUNK):
            part = sentence[start : start + _CHUNK]
            if piece and len(piece) + len(part) >= _CHUNK:
                yield piece
                piece = ""
            piece = f"{piece} {part}".strip()
    if piece:
        yield piece


def _clip(text: str) -> str:
    plain = join_lines(text)
    return plain if len(plain) <= _REFERENCE else f"…{plain[-_REFERENCE:]}"


@cache
def make_schema(*, with_notes: bool) -> dict[str, Any]:
    """Return what the model fills in: flat, so that a small one can. Only notes can be replaced."""
    fact: dict[str, Any] = {"message": {"type": "integer"}, "about": _TEXT, "fact": _TEXT}
    if with_notes:
        fact |= {"replaces": _TEXT, "how": {"type": "string", "enum": ["", *HOW]}}
    person: dict[str, Any] = {"name": _TEXT, "also_called": _TEXT}
    return _object({"facts": _array(_object(fact)), "people": _array(_object(person))})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def structured_text() -> str:
    """Load the instructions for answering by the schema."""
    return _load_text("STRUCTURED.md")


def code_text() -> str:
    """Load the instructions for looking things up and writing with scripts."""
    return _load_text("CODE.md")


@cache
def _load_text(name: str) -> str:
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8").strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """One fact as the model gave it."""

    fact: str
    about: str = ""
    message: int | None = None
    replaces: int | None = None
    """The number of the note that it says is no longer true."""
    how: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """Somebody whom the messages name."""

    name: str
    also_called: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extraction:
    """What a model found in some messages."""

    people: tuple[Person, ...] = ()
    facts: tuple[Draft, ...] = ()


def read_answer(text: str) -> Extraction:
    """Read the facts of an answer, despite fences, words around it, other field names or a cut-off end."""
    answer = _parse_json(text)
    if isinstance(answer, list):
        answer = {"facts": cast("list[object]", answer)}
    if not isinstance(answer, Mapping):
        raise UnusableAnswerError("The answer holds no JSON object")
    fields = cast("Mapping[str, Any]", answer)
    if not fields.keys() & {"facts", "people"} and _get_first(fields, _FACT_KEYS):
        fields = {"facts": [fields]}
    return Extraction(
        people=tuple(dict.fromkeys(_read_people(fields.get("people")))),
        facts=tuple(dict.fromkeys(_read_drafts(fields.get("facts"))))[:_MOST_FACTS],
    )


def _parse_json(text: str) -> object:
    """Parse the first JSON value of a text, or the complete objects of one that breaks off."""
    decoder = json.JSONDecoder()
    for start in (place for place, sign in enumerate(text) if sign in "{["):
        try:
            value, _ = decoder.raw_decode(text, start)
        except RecursionError:
            break  # a model that repeats one bracket
        except ValueError:
            if text[start] == "{" and _BEGUN.search(text, start):
                break  # the answer breaks off
            continue
        if isinstance(value, Mapping) and not cast("Mapping[str, Any]", value).keys() & {
            "facts",
            "people",
            *_FACT_KEYS,
        }:
            break  # an object inside one that breaks off, or no answer at all
        return cast("object", value)
    pieces = [piece for match in _OBJECT.finditer(text) if (piece := _parse_object(match[0]))]
    people = [piece for piece in pieces if "name" in piece]
    facts = [piece for piece in pieces if _get_first(piece, _FACT_KEYS) and "name" not in piece]
    if not people and not facts:
        raise UnusableAnswerError("The answer is not JSON")
    return {"people": people, "facts": facts}


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _read_drafts(given: object) -> Iterator[Draft]:
    for each in cast("list[object]", given) if isinstance(given, list) else []:
        if isinstance(each, str) and each.strip():
            yield Draft(fact=_flatten(each))
        elif isinstance(each, Mapping):
            fields = cast("Mapping[str, Any]", each)
            fact = _flatten(_get_first(fields, _FACT_KEYS))
            number = re.search(r"\d{1,6}", str(_get_first(fields, _MESSAGE_KEYS) or ""))
            note = _NOTE.search(_flatten(fields.get("replaces")))
            how = _flatten(fields.get("how")).casefold()
            if fact:
                yield Draft(
                    fact=fact,
                    about=_flatten(_get_first(fields, _ABOUT_KEYS)),
                    message=int(number[0]) if number else None,
                    replaces=int(note[1]) if note else None,
                    how=how if how in HOW else None,
                )


def _read_people(given: object) -> Iterator[Person]:
    for each in cast("list[object]", given) if isinstance(given, list) else []:
        if isinstance(each, str) and each.strip():
            yield Person(name=_flatten(each))
        elif isinstance(each, Mapping):
            fields = cast("Mapping[str, Any]", each)
            name = _flatten(fields.get("name"))
            if name:
                also = _flatten(_get_first(fields, _ALIAS_KEYS))
                yield Person(name=name, also_called="" if also.casefold() == name.casefold() else also)


def _get_first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key)), None)


def _flatten(value: object) -> str:
    if isinstance(value, list):
        value = next(iter(cast("list[object]", value)), "")
    return join_lines(str(value))[:_LONGEST] if isinstance(value, str | int | float) else ""
