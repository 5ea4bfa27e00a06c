"""What the model is asked for in structured mode, and how its answer is read."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from nexus.errors import UnusableAnswerError

_TEXT: Final = {"type": "string"}
HOW: Final = ("corrected", "changed", "cancelled")


@cache
def schema(*, with_notes: bool) -> dict[str, Any]:
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


_MOST_FACTS: Final = 60
_LONGEST: Final = 600
_BEGUN: Final = re.compile(r'"(?:facts|people)"\s*:')
_OBJECT: Final = re.compile(r"\{[^{}]*\}")
# What models call the fields when they are not made to use our names.
_FACT_KEYS: Final = ("fact", "statement", "text", "content", "value")
_ABOUT_KEYS: Final = ("about", "subject", "entity", "who", "person")
_MESSAGE_KEYS: Final = ("message", "message_number", "source", "id", "n")
_NOTE: Final = re.compile(r"\bN?(\d{1,2})\b", re.IGNORECASE)
_ALIAS_KEYS: Final = ("also_called", "alias", "aliases", "nickname", "also")


def structured_text() -> str:
    """How to answer by the schema."""
    return _text("STRUCTURED.md")


def code_text() -> str:
    """How to look things up and write with scripts."""
    return _text("CODE.md")


@cache
def _text(name: str) -> str:
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


def read(text: str) -> Extraction:
    """The facts of an answer. Fences, words around it, other names of fields and a cut-off end do no harm."""
    answer = _json(text)
    if isinstance(answer, list):
        answer = {"facts": cast("list[object]", answer)}
    if not isinstance(answer, Mapping):
        raise UnusableAnswerError("The answer holds no JSON object")
    fields = cast("Mapping[str, Any]", answer)
    if not fields.keys() & {"facts", "people"} and _first(fields, _FACT_KEYS):
        fields = {"facts": [fields]}
    return Extraction(
        people=tuple(dict.fromkeys(_people(fields.get("people")))),
        facts=tuple(dict.fromkeys(_drafts(fields.get("facts"))))[:_MOST_FACTS],
    )


def _json(text: str) -> object:
    """The first JSON value of a text, or the complete objects of one that breaks off."""
    decoder = json.JSONDecoder()
    for start in (place for place, sign in enumerate(text) if sign in "{["):
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
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
    pieces = [piece for match in _OBJECT.finditer(text) if (piece := _piece(match[0]))]
    people = [piece for piece in pieces if "name" in piece]
    facts = [piece for piece in pieces if _first(piece, _FACT_KEYS) and "name" not in piece]
    if not people and not facts:
        raise UnusableAnswerError("The answer is not JSON")
    return {"people": people, "facts": facts}


def _piece(text: str) -> dict[str, Any] | None:
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _drafts(given: object) -> Iterator[Draft]:
    for each in cast("list[object]", given) if isinstance(given, list) else []:
        if isinstance(each, str) and each.strip():
            yield Draft(fact=_line(each))
        elif isinstance(each, Mapping):
            fields = cast("Mapping[str, Any]", each)
            fact = _line(_first(fields, _FACT_KEYS))
            note = _NOTE.search(_line(fields.get("replaces")))
            how = _line(fields.get("how")).casefold()
            if fact:
                yield Draft(
                    fact=fact,
                    about=_line(_first(fields, _ABOUT_KEYS)),
                    message=_number(fields),
                    replaces=int(note[1]) if note else None,
                    how=how if how in HOW else None,
                )


def _people(given: object) -> Iterator[Person]:
    for each in cast("list[object]", given) if isinstance(given, list) else []:
        if isinstance(each, str) and each.strip():
            yield Person(name=_line(each))
        elif isinstance(each, Mapping):
            fields = cast("Mapping[str, Any]", each)
            name = _line(fields.get("name"))
            if name:
                also = _line(_first(fields, _ALIAS_KEYS))
                yield Person(name=name, also_called="" if also.casefold() == name.casefold() else also)


def _first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key)), None)


def _number(fields: Mapping[str, Any]) -> int | None:
    found = re.search(r"\d+", str(_first(fields, _MESSAGE_KEYS) or ""))
    return int(found[0]) if found else None


def _line(value: object) -> str:
    if isinstance(value, list):
        value = next(iter(cast("list[object]", value)), "")
    return " ".join(str(value).split())[:_LONGEST] if isinstance(value, str | int | float) else ""
