"""What speaks for a statement: the message that is cited for it, and what that message answers or refers to.

Every name, number and date of a statement must stand in the message, or resolve from it: by when it was said,
by the question that it answers, or by what was talked about. Questions, suppositions and jokes say nothing.
What differs from a memory in a value is news; what repeats one that nobody said again is an echo.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Final

from nexus import clock
from nexus.context.wrapping import split_quotes
from nexus.memory.languages import DEFAULT, detect, mixture, speech
from nexus.memory.languages.speech import Clause
from nexus.memory.recall.words import function_words, tokens
from nexus.roles.memory_writer import anchors
from nexus.roles.memory_writer.anchors import Mentions

if TYPE_CHECKING:
    from nexus.roles.memory_writer.turns import Message

# The share of a statement's own words that one memory must hold to explain it.
_EXPLAINED: Final = 0.6
# The same for all memories together, where next to nothing of the statement was said.
_PIECED_TOGETHER: Final = 0.75
_HARDLY_SAID: Final = 0.25
# The share of a statement's words that makes a message its source if none is cited.
_SAID: Final = 0.4
# The share of what a statement adds to something known that the message must hold.
_ADDED: Final = 0.5
# Names from so many messages before may be meant by a pronoun.
_RECENT: Final = 6
_POSSESSED: Final = re.compile(r"(?:\w+\s+){0,3}?\w+['\u2019]s?\s")
_WORDS: Final = re.compile(r"[^\W\d_]+")
_TAGS: Final = re.compile(r"</?\w+[^<>]*>")
# From this many words on, a text tells its language.
_TELLS_LANGUAGE: Final = 5
# Letters that the forms of a word share, in languages whose stemmer isn't used here.
_SHARED_LETTERS: Final = 5

_ECHO: Final = "This is a memory, and nobody said it in these turns"
_EARLIER: Final = "An earlier message says this, and this one does not"
_UNSAID: Final = "The message does not say this"

UNNAMED: Final = "Owner"
"""What the memory calls the owner before anybody says their name."""

QUOTE: Final = "quote"


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A message, or the result of a tool."""

    text: str
    message: "Message | None" = None
    tool: str | None = None
    answers: str = ""
    """What the agent had said just before."""
    name: str = ""
    """What whoever says it is called in the memory; of a quote, its author."""
    quoted_in: "Message | None" = None
    """The message that only quotes or forwards it. Then `tool` is QUOTE."""

    @classmethod
    def of(cls, message: "Message", text: str, *, answers: str, name: str) -> "Iterator[Heard]":
        """Split a message into what its sender says and what they quote of others."""
        own, quotes = split_quotes(text)
        yield cls(text=own, message=message, answers=answers, name=name)
        for quote in quotes:
            yield cls(text=quote.text, tool=QUOTE, name=quote.author or "somebody", quoted_in=message)

    @property
    def source(self) -> "Message | None":
        """The message that it stands in; None for what a tool gave."""
        return self.message or self.quoted_in

    @property
    def event_id(self) -> str | None:
        return self.message.event.id if self.message else None

    @property
    def speaker(self) -> str | None:
        """The entity of whoever says it; None for a quote, a tool or a sender who isn't known."""
        return self.message.sender.entity_id if self.message and self.message.sender else None

    @property
    def is_unnamed(self) -> bool:
        """Whether nobody has said yet what the owner is called."""
        return self.name in {"", UNNAMED}

    @cached_property
    def words(self) -> frozenset[str]:
        return words(self.text)

    @cached_property
    def stated(self) -> str:
        """What it asserts; all of it for what a tool gave."""
        if self.tool is not None:
            return self.text
        return " . ".join(clause.text for clause in speech.clauses(self.text) if clause.asserts)

    @cached_property
    def said_on(self) -> date:
        moment = clock.parse(self.message.event.occurred_at) if self.message else clock.now()
        return moment.date()

    def holds(self, own: frozenset[str], whole: frozenset[str]) -> float:
        """The share of a statement that it holds: of its own words, and of all with its names."""
        return min(share(own, self.words), share(whole, self.words))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found for a statement."""

    heard: Heard | None = None
    """What says it; None where nothing does."""
    refusal: str = ""
    """Why it may not be written; empty where it may."""
    replaces: str = ""
    """The memory that it differs from in a value."""


@dataclass(frozen=True, kw_only=True)
class Referred:
    """Somebody or something that a statement is about, or ties to another."""

    names: tuple[str, ...]
    """All that it is called: one of them must have been said."""
    id: str | None = None
    known: bool = False
    """Whether the memory knew it before."""
    granted: bool = False
    """Whether it is meant without being named: who speaks, or "my sister" where it is known who that is."""


@dataclass(kw_only=True)
class Evidence:
    """The texts of one writer's run."""

    heard: list[Heard] = field(default_factory=list[Heard])
    """Everything that the conversation shows but memories, the oldest first."""
    due: list[Heard] = field(default_factory=list[Heard])
    """What of it the run is to write from."""
    remembered: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    standing: set[str] = field(default_factory=set[str])
    """Those of them that stand in every conversation, whatever it is about."""

    def remember(self, texts: Iterable[str], *, standing: bool = False) -> None:
        """Note what came from the memory; each line is one memory."""
        for text in texts:
            for line in filter(None, map(str.strip, _TAGS.sub("", text).splitlines())):
                if standing and line not in self.remembered:
                    self.standing.add(line)
                self.remembered[line] = words(line)

    def find(self, statement: str, referred: Sequence[Referred] = (), cited: Heard | None = None) -> Finding:
        """Find what says a statement: the message cited for it, or the one that says it best if none is."""
        if cited is not None:
            return self._judge_cited(statement, referred, cited)
        names = [name for each in referred for name in each.names]
        best = self.find_supporter(statement, names)
        tried = [*([best] if best else []), *(each for each in reversed(self.due) if each is not best)]
        found = [self._judge(statement, referred, each) for each in tried]
        if said := next((each for each in found if not each.refusal), None):
            return said
        if found:
            return found[0]
        missing = self.find_unsaid(statement, referred)
        return Finding(refusal=f"Nobody said {missing!r} here" if missing else _UNSAID)

    def find_supporter(self, statement: str, names: Iterable[str], asked: str | None = None) -> Heard | None:
        """Find what says a statement best; None if nothing does.

        Of two that say it alike the one that is asked for counts, then people before tools, then the later.
        """
        whole = words(statement)
        own = whole - words(" ".join(names)) or whole
        if not own:
            return None

        def rank(numbered: tuple[int, Heard]) -> tuple[float, bool, bool, int]:
            number, heard = numbered
            is_asked = heard.message is not None and heard.message.event.id == asked
            return (heard.holds(own, whole), is_asked, heard.message is not None, number)

        best = max(enumerate(self.heard), key=rank, default=None)
        return best[1] if best and best[1].holds(own, whole) >= _SAID else None

    def find_memory_behind(
        self, statement: str, names: Iterable[str] = (), stated: str = ""
    ) -> frozenset[str] | None:
        """Find the memory that a statement repeats and nobody said, as its words; None for news."""
        own = words(statement) - words(" ".join(names)) or words(statement)
        # A copy: this runs on a thread, and what is looked up meanwhile is remembered as well.
        remembered = dict(self.remembered)
        if not own or not remembered:
            return None
        said = max(
            (share(own, heard) for heard in (*(each.words for each in self.due), words(stated))), default=0.0
        )
        held = max(remembered.values(), key=lambda memory: share(own, memory))
        if share(own, held) >= _EXPLAINED and share(own, held) > said:
            return held
        together = frozenset[str]().union(*remembered.values())
        return together if said < _HARDLY_SAID and share(own, together) >= _PIECED_TOGETHER else None

    def find_unsaid(self, text: str, referred: Sequence[Referred] = ()) -> str:
        """Find the first name or number of a text that the conversation lacks; empty if there is none."""
        given = anchors.find_mentions(
            [each.text for each in self.heard] + [each.answers for each in self.heard] + [*self.remembered],
            [each.said_on for each in self.heard if each.message],
        )
        missing = _find_unnamed(referred, given)
        if missing:
            return missing
        given = given.with_words(name for each in referred for name in each.names)
        return next(iter(given.find_missing(anchors.find_anchors(text))), "")

    def _judge_cited(self, statement: str, referred: Sequence[Referred], cited: Heard) -> Finding:
        """Judge by the message cited, or by another of these turns if the number was wrong."""
        finding = self._judge(statement, referred, cited)
        if not finding.refusal:
            return finding
        own = words(statement)
        others = (each for each in self.due if each is not cited and share(own, each.words) >= _EXPLAINED)
        judged = (self._judge(statement, referred, each) for each in others)
        return next((each for each in judged if not each.refusal), finding)

    def _judge(self, statement: str, referred: Sequence[Referred], cited: Heard) -> Finding:
        people = [each for each in self.heard if each.message is not None]
        place = next((n for n, each in enumerate(people) if each is cited), len(people))
        before = people[max(0, place - _RECENT) : place]
        # Memories that were shown for this conversation: it may mean what they name.
        shown = [line for line in self.remembered if line not in self.standing]
        case = _Case(statement, referred, cited, before, shown)
        if refusal := case.find_refusal():
            return Finding(heard=cited, refusal=refusal)
        differs = self._find_contradicted(case)
        is_said = differs or case.is_agreement or case.says_value
        behind = None if is_said else self.find_memory_behind(statement, case.names, cited.stated)
        if behind is not None and not case.adds_to(behind):
            return Finding(heard=cited, refusal=_ECHO)
        if any(case.repeats(each) for each in before):
            return Finding(heard=cited, refusal=_EARLIER)
        return Finding(heard=cited, replaces=differs, refusal="" if case.contributes else _UNSAID)

    def _find_contradicted(self, case: "_Case") -> str:
        """Find a memory on the same matter with another value than the statement; empty if there is none."""
        near = self._find_near(case.statement, case.names)
        return next(
            (line for line in near if case.has_values_beyond(line) or case.reverses(line, self.remembered)),
            "",
        )

    def _find_near(self, statement: str, names: Sequence[str]) -> Iterator[str]:
        """Find memories on the same matter, the nearest first."""
        own = words(statement) - words(" ".join(names)) or words(statement)
        if not own:
            return
        ranked = sorted(self.remembered.items(), key=lambda memory: -share(own, memory[1]))
        yield from (line for line, held in ranked[:3] if share(own, held) >= _SAID)


class _Case:
    """One statement beside the message that is cited for it."""

    def __init__(
        self,
        statement: str,
        referred: Sequence[Referred],
        cited: Heard,
        before: Sequence[Heard],
        memories: Sequence[str],
    ) -> None:
        self.statement, self.cited, self.referred = statement, cited, referred
        self.names = [name for each in referred for name in each.names]
        # Whom a sentence begins with is whom it is about: that alone says nothing.
        self.subject = [*self.names, *anchors.find_opening(statement)]
        self.is_own = any(each.id is not None and each.id == cited.speaker for each in referred[:1])
        self.spoken = speech.languages(statement, cited.text, cited.answers)
        self.wanted = anchors.find_anchors(statement, self.spoken)
        is_reply = bool(cited.answers) and cited.tool is None
        self.agrees = is_reply and speech.answers_yes(cited.text)
        self.denies = is_reply and speech.answers_no(cited.text)
        self.own = anchors.find_mentions([cited.stated], [cited.said_on], self.spoken)
        refers = is_reply and (
            self.agrees
            or self.denies
            or speech.is_short(cited.text)
            or speech.says("refers", cited.text, self.spoken)
            or not anchors.found(cited.text, self.spoken[0])
            or _are_alike(words(cited.stated), words(cited.answers))
        )
        around = [each.text for each in before] + [*memories] + [cited.answers] * refers
        self.around = anchors.find_mentions(around, [], self.spoken)

    @property
    def is_agreement(self) -> bool:
        """Whether it rests on a yes or a no to what the agent had asked or proposed."""
        asked = [clause.text for clause in speech.clauses(self.cited.answers) if clause.asks]
        return (self.agrees or self.denies) and _are_alike(self._words, words(" ".join(asked)))

    @property
    def says_value(self) -> bool:
        """Whether the message itself says a number or a date of the statement."""
        values = replace(self.wanted, names=())
        return bool(self.own.find_shared(values, but=()))

    @cached_property
    def contributes(self) -> bool:
        """Whether the message itself says something of it, and not what it is about alone."""
        if self.is_agreement or self.own.find_shared(self.wanted, but=self.subject):
            return True
        stated = words(self.cited.stated)
        if _are_alike(self._words, stated):
            return True
        language = detect(self.statement)
        is_long = len(_WORDS.findall(self.cited.text)) >= _TELLS_LANGUAGE or not self.cited.text.isascii()
        return is_long and len(stated) > 1 and detect(self.cited.text, language) != language

    def adds_to(self, known: frozenset[str]) -> bool:
        """Whether the message says what the statement adds to some words that are known."""
        added = self._words - known
        return bool(added) and share(added, words(self.cited.stated)) >= _ADDED

    def repeats(self, earlier: Heard) -> bool:
        """Whether it says what an earlier message said, and the cited one has no part in it."""
        held = words(earlier.stated)
        shared = share(self._words, held)
        clauses = [clause.text for clause in speech.clauses(earlier.text) if clause.asserts]
        nearest = max(clauses, key=lambda clause: len(self._words & words(clause)), default="")
        return (
            shared >= _EXPLAINED
            and shared > share(self._words, words(self.cited.stated))
            and self.cited.tool is None
            and not self.is_agreement
            and not self.adds_to(held)
            and not self._names_somebody_new(earlier)
            and not self.has_values_beyond(earlier.text)
            and not self.reverses(nearest, clauses)
        )

    def _names_somebody_new(self, earlier: Heard) -> bool:
        """Whether the message names somebody of the statement whom the earlier one does not."""
        names = replace(anchors.Anchors(), names=(*self.wanted.names, *self.subject))
        new = anchors.find_mentions([earlier.text], [], self.spoken).find_missing(names)
        return any(self.own.names(each) for each in new)

    @cached_property
    def _words(self) -> frozenset[str]:
        whole = words(self.statement)
        return whole - words(" ".join(self.subject)) or whole

    def find_refusal(self) -> str:
        """Find why the message does not support the statement; empty if it does."""
        given = self.own.join(self.around)
        # A name at the start of a question was said all the same; what the question says of it was not.
        named = given.with_words([self.cited.text])
        unnamed = _find_unnamed(self.referred, named)
        if unnamed:
            return f"Nobody said {unnamed!r} here"
        given = given.with_words(self.names)
        everything = given.join(anchors.find_mentions([self.cited.text], [self.cited.said_on], self.spoken))
        if missing := everything.find_missing(self.wanted):
            return f"Nobody said {missing[0]!r} here"
        if unasserted := self._find_unasserted():
            return unasserted
        if missing := given.find_missing(self.wanted):
            return f"The message does not state {missing[0]!r}"
        if self.cited.tool is not None:
            return ""
        if contradicted := self.own.find_contradiction(self.wanted):
            return f"The message says something else than {contradicted!r}"
        is_own_value = bool(self.own.find_shared(self.wanted, but=self.subject))
        if self.denies and self.is_agreement and not is_own_value and not self._is_negative(self.statement):
            return "The question was denied"
        return self._find_mistake()

    def _find_unasserted(self) -> str:
        """Find whether it is only asked, supposed, joked or quoted: then it is not said."""
        is_quoted = self._stands_only_in(lambda clause: clause.quotes)
        if self.is_agreement or (self.contributes and not is_quoted):
            return ""
        if is_quoted:
            return "" if self._names_who_is_quoted() else "This is what somebody else is quoted with"
        if self._stands_only_in(lambda clause: clause.jokes):
            return "This was a joke"
        if self._stands_only_in(lambda clause: clause.supposes):
            return "This was only supposed"
        return "This was asked, not said" if self._stands_only_in(lambda clause: clause.asks) else ""

    def _names_who_is_quoted(self) -> bool:
        parts = speech.clauses(self.cited.text)
        inside = words(" ".join(part.text for part in parts if part.quotes))
        outside = words(" ".join(part.text for part in parts if not part.quotes))
        named = words(" ".join((*self.names, self.statement))) - inside
        return bool(named & outside) and not self.is_own

    def _stands_only_in(self, kind: Callable[[Clause], bool]) -> bool:
        """Whether only clauses of one kind hold words of the statement."""
        found = [clause for clause in speech.clauses(self.cited.text) if self._touches(clause.text)]
        return bool(found) and all(kind(clause) for clause in found)

    def _touches(self, text: str) -> bool:
        held = anchors.find_mentions([text], [self.cited.said_on], self.spoken)
        return bool(held.find_shared(self.wanted, but=self.subject)) or _are_alike(self._words, words(text))

    def _find_mistake(self) -> str:
        """Find a denial turned into its opposite, or a statement about somebody else."""
        clauses = [c for c in speech.clauses(self.cited.text) if c.asserts and self._touches(c.text)]
        if not clauses:
            return ""
        best = max(clauses, key=lambda clause: len(self._words & words(clause.text)))
        if self.is_own and self._is_of_speaker() and self._is_of_others(best.text):
            return "The message says this of somebody else"
        if (
            speech.negates(self.statement, self.spoken)
            or not best.negates
            or speech.says("contrast", best.text, self.spoken)
        ):
            return ""
        turned = speech.found("negative", self.statement, self.spoken)
        return "" if turned - speech.found("negative", best.text, self.spoken) else "The message denies this"

    def _is_of_speaker(self) -> bool:
        """Whether the statement's sentence begins with who says it: "The owner", "Mara"."""
        if _POSSESSED.match(self.statement):
            return False  # "The owner's flight"
        names = {each.split()[0].casefold() for each in self.referred[0].names}
        opening = anchors.find_opening(self.statement)
        return speech.opens_with_self(self.statement, self.spoken) or (
            bool(opening) and opening[0].casefold() in names
        )

    def _is_of_others(self, clause: str) -> bool:
        """Whether a clause speaks of somebody whom the statement does not name, and not of who says it."""
        if speech.speaks_of_others(clause, self.spoken):
            return True
        named = anchors.find_opening(clause)
        is_name = bool(named) and named == anchors.found(clause, self.spoken[0])[: len(named)]
        mentioned = anchors.find_mentions([self.statement], [], self.spoken)
        return (
            is_name
            and not mentioned.names(" ".join(named))
            and not speech.speaks_of_self(clause, self.spoken)
        )

    def _is_negative(self, text: str) -> bool:
        spoken = speech.languages(self.statement, text)
        return speech.negates(text, spoken) or speech.says("negative", text, spoken)

    def has_values_beyond(self, known: str) -> bool:
        """Whether the message gives it a number, a date or a name that what is known does not have."""
        spoken = speech.languages(self.statement, known)
        # A memory's own text, without the date and the source that are shown with it.
        lines = [re.sub(r"\s*\([^()]*\)\s*$", "", line) for line in known.splitlines()]
        then = anchors.find_mentions(lines, [], spoken)
        new = [each for each in then.find_missing(self.wanted) if each not in self.names]
        given = self.own.join(anchors.find_mentions([self.cited.text], [], spoken))
        return any(given.has(each) for each in new)

    def reverses(self, known: str, others: Iterable[str] = ()) -> bool:
        """Whether it says that what is known is not so, or is so after all.

        A "not" that others bring into it turns nothing: then it says two things, one after the other.
        """
        is_negative = self._is_negative(self.statement)
        if is_negative == self._is_negative(known) or not self.contributes:
            return False
        left = self._words - words(known)
        return not any(left & words(each) and self._is_negative(each) == is_negative for each in others)


def words(text: str) -> frozenset[str]:
    """The words of a text that carry content, stemmed."""
    return frozenset(tokens(text)) - function_words(DEFAULT, *mixture(text))


def _find_unnamed(referred: Sequence[Referred], given: Mentions) -> str:
    """Find whom a statement refers to and nobody named; empty if everybody was."""
    for each in referred:
        # Who is known by a full name may be called by the first one.
        first = [name.split()[0] for name in each.names if each.known and " " in name]
        if not each.granted and each.names and not any(map(given.names, (*each.names, *first))):
            return each.names[0]
    return ""


def share(own: frozenset[str], held: frozenset[str]) -> float:
    """How much of some words others hold."""
    return len(own & held) / len(own) if own else 0.0


def _are_alike(one: frozenset[str], two: frozenset[str]) -> bool:
    """Whether two sets share a word, or the beginning of a long one."""
    if one & two:
        return True
    long = {word[:_SHARED_LETTERS] for word in one if len(word) >= _SHARED_LETTERS and not word.isdigit()}
    return any(word[:_SHARED_LETTERS] in long for word in two if len(word) >= _SHARED_LETTERS)
