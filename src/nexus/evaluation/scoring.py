"""Scores: what was stored against what should have been, and answers against what is known.

Everything is scored by words (see `matching`), and by a judge as well where its verdicts are given.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from nexus.evaluation.asking import Answer
from nexus.evaluation.life import UNANSWERED, Life, Row
from nexus.evaluation.playing import ME, Memory, Played
from nexus.evaluation.transcript import Matcher, share
from nexus.skills.memory_socket import OWNER

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
    played: Mapping[str, Played]

    @cached_property
    def matcher(self) -> Matcher:
        return Matcher.of(self.life.owner, self.life.language)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words that tell one fact from another; what an answer says besides is how it talks."""
        return frozenset[str]().union(*(self.matcher.read(row["text"]).all for row in self.life.facts))

    def extraction(self, verdicts: Verdicts | None = None) -> Row:
        """What is stored of what must be and what must not be."""
        items: list[Row] = []
        for row in self.life.writer:
            session = str(row["session"])
            nothing: Mapping[str, list[bool]] = {}
            judged = verdicts.sessions.get(session, nothing) if verdicts else nothing
            for kind in ("must", "must_not"):
                for number, text in enumerate(row[kind]):
                    found = self._stored(session, text) if kind == "must" else self._repeated(session, text)
                    item = {"session": session, "kind": kind, "text": text, "stored": found}
                    if kind in judged:
                        item["judged"] = judged[kind][number]
                    items.append(item)
        memories = [memory for played in self.played.values() for memory in played.memories]
        return {
            "must": _counted(items, "must"),
            "must_not": _counted(items, "must_not"),
            "memories": len(memories),
            "unsaid": sum(
                not self._was_said(memory, session)
                for session, played in self.played.items()
                for memory in played.memories
            ),
            "items": items,
        }

    def attribution(self) -> Row:
        """Who is said to have stated the stored facts, against who did."""
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
        kinds = {kind: _right(items, kind) for kind in dict.fromkeys(str(item["kind"]) for item in items)}
        answered = [item for item in items if item["kind"] not in UNANSWERED]
        return {
            "all": _right(answered),
            "unanswerable": _right([item for item in items if item["kind"] in UNANSWERED]),
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
        known = self.known(question)
        hits = [self._tells(question["text"], text, answer) for text in known]
        is_hit = all(hits) if question.get("all") else any(hits)
        return is_hit and not self._is_outdated(question, known, answer)

    def known(self, question: Row) -> list[str]:
        """The texts that answer a question."""
        gold: Any = question.get("answer")
        if gold:
            return list(map(str, cast("list[object]", gold))) if isinstance(gold, list) else [str(gold)]
        texts = {row["key"]: str(row["text"]) for row in self.life.facts}
        return [texts[key] for key in question["evidence"] if key in texts]

    def outdated(self, question: Row) -> list[str]:
        """The texts that answered it once."""
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
        for text in self.outdated(question):
            before = self.matcher.read(text).all
            if share(before - now, said) > share(now - before, said):
                return True
        return False

    def _stored(self, session: str, text: str) -> list[str]:
        """The memories of a session that state a text, or one that an earlier session left."""
        own = self._memories(session)
        places = self.matcher.stating(text, [memory.text for memory in own])
        if places:
            return [own[place].text for place in places]
        earlier = [memory for name in self._until(session) for memory in self._memories(name)]
        return [memory.text for memory in earlier if self.matcher.stating(text, [memory.text])][:1]

    def _repeated(self, session: str, text: str) -> list[str]:
        return [m.text for m in self._memories(session) if self.matcher.repeats(text, m.text)]

    def _memories(self, session: str) -> list[Memory]:
        played = self.played.get(session)
        return played.memories if played else []

    def _until(self, session: str) -> list[str]:
        names = list(self.life.sessions)
        return names[: names.index(session) + 1]

    def _was_said(self, memory: Memory, session: str) -> bool:
        said = frozenset[str]().union(
            *(
                self.matcher.said(f"{row['text']} {self.life.names.get(row['speaker'], '')}")
                for name in self._until(session)
                for row in self.life.sessions[name]
            )
        )
        own = self.matcher.said(memory.text)
        return not own or share(own, said) >= _SAID

    def _source(self, session: str, memory: Memory) -> str | None:
        """The message that says what a memory states."""
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
        """The stored facts that state one of the life's, from its own session."""
        session = self.life.session_of.get(fact.get("message", ""), "")
        found = [memory for memory in self._memories(session) if memory.kind == "fact"]
        return {memory.id for memory in found if self.matcher.is_same(fact["text"], memory.text)}


def _counted(items: Sequence[Row], kind: str) -> Row:
    own = [item for item in items if item["kind"] == kind]
    counts: dict[str, Any] = {"n": len(own), "stored": sum(bool(item["stored"]) for item in own)}
    if any("judged" in item for item in own):
        counts["judged"] = sum(bool(item.get("judged")) for item in own)
    return counts


def _right(items: Sequence[Row], kind: str | None = None) -> Row:
    own = [item for item in items if kind is None or item["kind"] == kind]
    counts: dict[str, Any] = {"n": len(own), "right": sum(bool(item["right"]) for item in own)}
    if any("judged" in item for item in own):
        counts["judged"] = sum(bool(item.get("judged")) for item in own)
    return counts
