"""What structured mode shows its model: numbered messages, and the little that explains them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nexus import clock
from nexus.context.wrapping import wrapped
from nexus.memory.languages import speech
from nexus.roles.memory_writer.evidence import Heard, words

# So many characters of messages go into one call: some six hundred tokens.
_CHUNK: Final = 2_400
MOST_CHUNKS: Final = 4
# Of what was said before, and of what the agent said, the end is what a message refers to.
_REFERENCE: Final = 300
# "Noted." explains nothing.
_TELLING: Final = 4
_TOOL: Final = 1_200


@dataclass(frozen=True, kw_only=True)
class Source:
    """A numbered message, or a part of a long one."""

    number: int
    heard: Heard
    text: str


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What one call is about."""

    sources: tuple[Source, ...]
    before: tuple[str, ...]


def says_something(heard: Heard) -> bool:
    """Whether anything can be learned from it: it states something, or answers what the agent asked."""
    if heard.tool is not None or words(heard.stated):
        return True
    asked = any(clause.asks for clause in speech.clauses(heard.answers))
    return asked and (speech.answers_yes(heard.text) or speech.answers_no(heard.text))


def chunks(due: Sequence[Heard], before: Sequence[Heard], most: int = MOST_CHUNKS) -> tuple[list[Chunk], int]:
    """The messages in pieces that fit into a call each, and how many characters are too many to be read."""
    sources = [
        Source(number=number, heard=heard, text=text)
        for number, (heard, text) in enumerate(_parts(due), start=1)
    ]
    found: list[list[Source]] = [[]]
    for source in sources:
        if found[-1] and sum(len(each.text) for each in found[-1]) + len(source.text) > _CHUNK:
            found.append([])
        found[-1].append(source)
    kept, left = found[:most], found[most:]
    # Small models write down again what they are shown: of people only what a pronoun may mean.
    reference = tuple(
        _clipped(f"{_who(each)}: {each.text}")
        for each in before[-1:]
        if due and speech.names_nobody(due[0].text)
    )
    made = [Chunk(sources=tuple(each), before=reference) for each in kept if each]
    return made, sum(len(source.text) for chunk in left for source in chunk)


def task(chunk: Chunk, known: Sequence[str], notes: Sequence[str] = ()) -> str:
    """The user turn of one call."""
    parts = [
        wrapped("known", "\n".join(known)) if known else "",
        wrapped("notes", "\n".join(notes)) if notes else "",
        wrapped("before", "\n".join(_reference(chunk))),
        wrapped("messages", "\n".join(_lines(chunk.sources))),
        "What do these messages teach that will still matter in a month? Answer with the JSON object.",
    ]
    return "\n\n".join(part for part in parts if part and not part.startswith("<before>\n\n"))


def _reference(chunk: Chunk) -> Iterator[str]:
    yield from chunk.before
    if len(chunk.sources[0].heard.answers.split()) >= _TELLING:
        yield f"assistant (not a source): {_clipped(chunk.sources[0].heard.answers)}"


def _lines(sources: Sequence[Source]) -> Iterator[str]:
    said = sources[0].heard.answers
    for source in sources:
        heard = source.heard
        if len(heard.answers.split()) >= _TELLING and heard.answers != said:
            said = heard.answers
            yield f"assistant (not a source): {_clipped(said)}"
        yield f"[{source.number}] {_who(heard)}{_when(heard)}: {source.text}"


def _who(heard: Heard) -> str:
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


def _when(heard: Heard) -> str:
    if heard.message is None:
        return ""
    at = clock.parse(heard.message.event.occurred_at)
    return f", {at:%a} {at:%Y-%m-%d %H:%M}"


def _parts(due: Sequence[Heard]) -> Iterator[tuple[Heard, str]]:
    for heard in due:
        text = heard.text[:_TOOL] if heard.tool is not None else heard.text
        yield from ((heard, piece) for piece in _cut(text))


def _cut(text: str) -> Iterator[str]:
    """A long text, cut between sentences where it has any."""
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


def _clipped(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _REFERENCE else f"…{plain[-_REFERENCE:]}"
