"""Scores: what was stored against what should have been, and answers against what is known.

Everything is scored by words (see `Matcher`), and by a judge as well where its verdicts are given.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from nexus.evaluation.life import UNANSWERED, Life, Row
from nexus.evaluation.playback import ME, Memory, PlayedSession
from nexus.evaluation.questions import Answer
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.words import function_words, tokens
from nexus.skills.memory_socket import OWNER

# Calibrated on the lives in bench/lives/train: see tests/unit/evaluation/test_matching.py.
_STATED: Final = 0.6
_STATED_TOGETHER: Final = 0.8
_MOST_TOGETHER: Final = 3
_CONTRARY: Final = 0.85
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?:T\S+)?")
_PHONE: Final = re.compile(r"\+?\d[\d\s()/-]{5,}\d")
_PHONE_DIGITS: Final = 7
# What people and memories call the owner, besides their name.
_OWNER_WORDS: Final = "I me my mine owner user"
_NEGATIONS: Final = re.compile(
    r"\b(?:no|not|never|without|cannot|\w+n't|nicht|nie|kein\w*|ohne|nunca|sin|ni|ne|n'|pas|jamais|sans|não|nem"
    r"|sem)\b",
    re.IGNORECASE,
)
_MONTHS: Final = (
    "January Januar enero janvier janeiro",
    "February Februar febrero février fevereiro",
    "March März marzo mars março",
    "April abril avril",
    "May Mai mayo maio",
    "June Juni junio juin junho",
    "July Juli julio juillet julho",
    "August agosto août",
    "September septiembre septembre setembro",
    "October Oktober octubre octobre outubro",
    "November noviembre novembre novembro",
    "December Dezember diciembre décembre dezembro",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The words of a text that carry its content."""

    words: frozenset[str]
    numbers: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.words | self.numbers


@dataclass(frozen=True, slots=True)
class Matcher:
    """Compares texts about one owner, whose own name says nothing: most statements are about them."""

    dropped: frozenset[str]

    @classmethod
    def of(cls, owner: str, language: str) -> "Matcher":
        return cls(frozenset(tokens(f"{owner} {_OWNER_WORDS}")) | function_words(DEFAULT, language))

    def read(self, text: str) -> Statement:
        phones = {digits[-_PHONE_DIGITS:] for digits in _phones(text)}
        plain = _ISO_DATE.sub(_written_out, _PHONE.sub(_without_phone, text))
        found = frozenset(tokens(plain)) - self.dropped
        numbers = {word for word in found if any(character.isdigit() for character in word)}
        return Statement(found - numbers, frozenset(number.lstrip("0") or "0" for number in numbers) | phones)

    def said_words(self, text: str) -> frozenset[str]:
        """Return the words of a text without its dates and numbers, which may follow from what was said."""
        return self.read(_ISO_DATE.sub(" ", text)).words

    def find_stating(self, text: str, rows: Sequence[str]) -> list[int]:
        """Return the places of the rows that state a text, alone or together; none if it isn't stated."""
        wanted = self.read(text)
        held = [self.read(row).all & wanted.all for row in rows]
        order = [place for place in range(len(rows)) if held[place]]
        for count in range(1, min(_MOST_TOGETHER, len(order)) + 1):
            chosen = _greedy(order, held, count)
            together = frozenset[str]().union(*(held[place] for place in chosen))
            enough = _STATED if count == 1 else _STATED_TOGETHER
            if share(wanted.all, together) >= enough and wanted.numbers <= together:
                return chosen
        return []

    def is_same(self, one: str, other: str) -> bool:
        """Whether two texts state the same: one of them may say more than the other."""
        first, second = self.read(one), self.read(other)
        more, less = (first, second) if len(first.all) > len(second.all) else (second, first)
        return less.numbers <= more.numbers and share(less.all, more.all) >= _STATED

    def repeats(self, text: str, row: str) -> bool:
        """Whether one row says nearly all of a text, and as little denies it: for what must not be there."""
        wanted, held = self.read(text).all, self.read(row).all
        same_sense = _denies(text) == _denies(row)
        return same_sense and share(wanted, held) >= _CONTRARY


def _denies(text: str) -> bool:
    return bool(_NEGATIONS.search(text.replace("\u2019", "'")))


def share(wanted: frozenset[str], held: frozenset[str]) -> float:
    """Return how much of what is wanted is held."""
    return len(wanted & held) / len(wanted) if wanted else 0.0


def _greedy(order: Sequence[int], held: Sequence[frozenset[str]], count: int) -> list[int]:
    """So many rows, each the one that adds the most."""
    chosen: list[int] = []
    have = frozenset[str]()
    for _ in range(count):
        best = max((p for p in order if p not in chosen), key=lambda p: len(held[p] - have))
        chosen.append(best)
        have |= held[best]
    return chosen


def _phones(text: str) -> Iterable[str]:
    found = ("".join(filter(str.isdigit, match)) for match in _PHONE.findall(_ISO_DATE.sub(" ", text)))
    return [digits for digits in found if len(digits) >= _PHONE_DIGITS]


def _without_phone(match: re.Match[str]) -> str:
    text = match.group()
    is_phone = not _ISO_DATE.search(text) and len(re.sub(r"\D", "", text)) >= _PHONE_DIGITS
    return " " if is_phone else text


def _written_out(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    months = _MONTHS[int(month) - 1] if 1 <= int(month) <= len(_MONTHS) else month
    return f"{int(day)} {months} {year}"


# How much of what a text tells beyond the question an answer must tell, or of an answer a text.
_ANSWERED: Final = 0.5
# How much of a memory's words must have been said.
_SAID: Final = 0.5
# How people say that they don't know, in the languages of our lives.
_DECLINES: Final = re.compile(
    "|".join(
        (
            r"\bdo(?:n't| not) (?:know|have|recall|remember|see|find)\b",
            r"\b(?:is|was|has)(?:n't| not) (?:been )?(?:mentioned|told|said|known|specified|recorded)\b",
            r"\bnot (?:sure|aware|mentioned|specified|provided|available)\b|\bunknown\b",
            r"\bno (?:information|record|mention|memory|memories|details?)\b",
            r"\b(?:never|haven't|have not|didn't) (?:told|mentioned|said|tell|mention|say)\b",
            r"\bcan(?:'t|not) (?:find|say|tell|recall)\b",
            r"\bwei(?:ß|ss) (?:ich )?(?:das )?(?:leider )?nicht\b|\bnicht (?:bekannt|erwähnt|gesagt)\b",
            r"\bkeine (?:information|angabe|erinnerung|ahnung)",
            r"\bno (?:lo )?(?:sé|tengo|recuerdo|consta|encuentro)\b|\bno (?:me )?has (?:dicho|mencionado)\b",
            r"\b(?:ne |n')(?:sais|ai|trouve|connais) (?:pas|aucune)\b|\baucune (?:information|mention)\b",
            r"\bjamais (?:dit|mentionné)\b|\bpas d'information\b",
            r"\bnão (?:sei|tenho|encontr\w+|me (?:disse|disseste|contou))\b",
            r"\bnenhuma (?:informação|menção)\b",
        )
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What a judge said: of each session's statements, and of each answer."""

    sessions: Mapping[str, Mapping[str, list[bool]]] = field(
        default_factory=dict[str, Mapping[str, list[bool]]]
    )
    answers: Mapping[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True)
class Scorer:
    """Scores one life that was played."""

    life: Life
    played: Mapping[str, PlayedSession]

    @cached_property
    def matcher(self) -> Matcher:
        return Matcher.of(self.life.owner, self.life.language)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words that tell one fact from another; what an answer says besides is how it talks."""
        return frozenset[str]().union(*(self.matcher.read(row["text"]).all for row in self.life.facts))

    def extraction(self, verdicts: Verdicts | None = None) -> Row:
        """Return what is stored of what must be and what must not be."""
        items: list[Row] = []
        for row in self.life.writer:
            session = str(row["session"])
            nothing: Mapping[str, list[bool]] = {}
            judged = verdicts.sessions.get(session, nothing) if verdicts else nothing
            for kind in ("must", "must_not"):
                for number, text in enumerate(row[kind]):
                    if kind == "must":
                        found = self._find_stored(session, text)
                    else:
                        own = self._memories(session)
                        found = [memory.text for memory in own if self.matcher.repeats(text, memory.text)]
                    item = {"session": session, "kind": kind, "text": text, "stored": found}
                    if kind in judged:
                        item["judged"] = judged[kind][number]
                    items.append(item)
        memories = [memory for played in self.played.values() for memory in played.memories]
        return {
            "must": _count_items(items, "must"),
            "must_not": _count_items(items, "must_not"),
            "memories": len(memories),
            "unsaid": sum(
                not self._was_said(memory, session)
                for session, played in self.played.items()
                for memory in played.memories
            ),
            "items": items,
        }

    def attribution(self) -> Row:
        """Return who is said to have stated the stored facts, against who did."""
        speakers = {row["key"]: str(row["speaker"]) for row in self.life.messages}
        right = inferred = 0
        wrong: list[Row] = []
        for session, played in self.played.items():
            for memory in played.memories:
                truth = self._source(session, memory)
                if truth is None:
                    continue
                speaker = speakers[truth]
                expected = OWNER if speaker == ME else speaker
                if memory.source_type == "inferred":
                    inferred += 1
                elif memory.speaker == expected:
                    right += 1
                if memory.speaker != expected:
                    wrong.append({"text": memory.text, "speaker": memory.speaker, "expected": expected})
        return {"n": right + inferred + len(wrong), "right": right, "inferred": inferred, "wrong": wrong}

    def supersession(self, links: Mapping[str, str]) -> Row:
        """Whether the current fact is stored, and the one before is not stored or is marked as replaced."""
        facts = {row["key"]: row for row in self.life.facts}
        pairs = [
            (row, facts[row["replaced_by"]]) for row in facts.values() if row.get("replaced_by") in facts
        ]
        items: list[Row] = []
        for old, new in pairs:
            current, outdated = self._ids(new), self._ids(old) - self._ids(new)
            items.append(
                {
                    "old": old["text"],
                    "new": new["text"],
                    "current_stored": bool(current),
                    "old_stored": bool(outdated),
                    "right": bool(current) and outdated <= links.keys() and not current <= links.keys(),
                }
            )
        return {
            "n": len(items),
            "current_stored": sum(item["current_stored"] for item in items),
            "both_stored": sum(item["current_stored"] and item["old_stored"] for item in items),
            "right": sum(item["right"] for item in items),
            "items": items,
        }

    def answers(self, given: Mapping[str, Answer], verdicts: Verdicts | None = None) -> Row:
        """Right answers by kind of question; for what has no answer, saying so is right."""
        items: list[Row] = []
        for row in self.life.questions:
            answer = given.get(str(row["id"]))
            if answer is None:
                continue
            item: Row = {"id": row["id"], "kind": row["kind"], "question": row["text"], "answer": answer.text}
            item["right"] = not answer.error and self.is_right(row, answer.text)
            if answer.error:
                item["error"] = answer.error
            if verdicts and str(row["id"]) in verdicts.answers:
                item["judged"] = not answer.error and verdicts.answers[str(row["id"])]
            items.append(item)
        kinds = {
            kind: _count_right(items, kind) for kind in dict.fromkeys(str(item["kind"]) for item in items)
        }
        answered = [item for item in items if item["kind"] not in UNANSWERED]
        return {
            "all": _count_right(answered),
            "unanswerable": _count_right([item for item in items if item["kind"] in UNANSWERED]),
            "kinds": kinds,
            "failed": sum("error" in item for item in items),
            "items": items,
        }

    def is_right(self, question: Row, answer: str) -> bool:
        """Whether an answer is right, by its words."""
        declined = not answer.strip() or bool(_DECLINES.search(answer.replace("\u2019", "'")))
        if not question["evidence"] and not question.get("answer"):
            return declined
        if declined:
            return False
        known = self.known_texts(question)
        hits = [self._tells(question["text"], text, answer) for text in known]
        is_hit = all(hits) if question.get("all") else any(hits)
        return is_hit and not self._is_outdated(question, known, answer)

    def known_texts(self, question: Row) -> list[str]:
        """Return the texts that answer a question."""
        gold: Any = question.get("answer")
        if gold:
            return list(map(str, cast("list[object]", gold))) if isinstance(gold, list) else [str(gold)]
        texts = {row["key"]: str(row["text"]) for row in self.life.facts}
        return [texts[key] for key in question["evidence"] if key in texts]

    def outdated_texts(self, question: Row) -> list[str]:
        """Return the texts that answered it once."""
        wrong = set(question.get("wrong", ()))
        return [str(row["text"]) for row in self.life.facts if row["key"] in wrong]

    def _tells(self, question: str, text: str, answer: str) -> bool:
        asked = self.matcher.read(question).all
        known, said = self.matcher.read(text), self.matcher.read(answer)
        wanted = known.all - asked or known.all
        common = wanted & said.all
        own = (said.all - asked) & (self.vocabulary | known.all)
        is_brief = bool(common) and share(own, common) >= _ANSWERED and said.numbers <= known.numbers | asked
        return is_brief or share(wanted, common) >= _ANSWERED

    def _is_outdated(self, question: Row, known: Sequence[str], answer: str) -> bool:
        """Whether an answer tells more of what was true once than of what is."""
        said = self.matcher.read(answer).all
        now = frozenset[str]().union(*(self.matcher.read(text).all for text in known))
        for text in self.outdated_texts(question):
            before = self.matcher.read(text).all
            if share(before - now, said) > share(now - before, said):
                return True
        return False

    def _find_stored(self, session: str, text: str) -> list[str]:
        """Return the memories of a session that state a text, or one that an earlier session left."""
        own = self._memories(session)
        places = self.matcher.find_stating(text, [memory.text for memory in own])
        if places:
            return [own[place].text for place in places]
        earlier = [memory for name in self._until(session) for memory in self._memories(name)]
        return [memory.text for memory in earlier if self.matcher.find_stating(text, [memory.text])][:1]

    def _memories(self, session: str) -> list[Memory]:
        played = self.played.get(session)
        return played.memories if played else []

    def _until(self, session: str) -> list[str]:
        names = list(self.life.sessions)
        return names[: names.index(session) + 1]

    def _was_said(self, memory: Memory, session: str) -> bool:
        said = frozenset[str]().union(
            *(
                self.matcher.said_words(f"{row['text']} {self.life.names.get(row['speaker'], '')}")
                for name in self._until(session)
                for row in self.life.sessions[name]
            )
        )
        own = self.matcher.said_words(memory.text)
        return not own or share(own, said) >= _SAID

    def _source(self, session: str, memory: Memory) -> str | None:
        """Return the message that says what a memory states."""
        best, most = None, 0.0
        for row in self.life.facts:
            message = row.get("message")
            if message is None or not row["about"] or self.life.session_of.get(message) != session:
                continue
            if self.matcher.is_same(row["text"], memory.text):
                likeness = share(self.matcher.read(row["text"]).all, self.matcher.read(memory.text).all)
                best, most = (message, likeness) if likeness > most else (best, most)
        return best

    def _ids(self, fact: Row) -> set[str]:
        """Return the stored facts that state one of the life's, from its own session."""
        session = self.life.session_of.get(fact.get("message", ""), "")
        found = [memory for memory in self._memories(session) if memory.kind == "fact"]
        return {memory.id for memory in found if self.matcher.is_same(fact["text"], memory.text)}


def _count_items(items: Sequence[Row], kind: str) -> Row:
    own = [item for item in items if item["kind"] == kind]
    counts: dict[str, Any] = {"n": len(own), "stored": sum(bool(item["stored"]) for item in own)}
    if any("judged" in item for item in own):
        counts["judged"] = sum(bool(item.get("judged")) for item in own)
    return counts


def _count_right(items: Sequence[Row], kind: str | None = None) -> Row:
    own = [item for item in items if kind is None or item["kind"] == kind]
    counts: dict[str, Any] = {"n": len(own), "right": sum(bool(item["right"]) for item in own)}
    if any("judged" in item for item in own):
        counts["judged"] = sum(bool(item.get("judged")) for item in own)
    return counts
