"""Turn what a model found into operations on the memory: who is meant, when it was, what kind of fact it is.

The model gives sentences. Rules derive everything else here, so that a small model has little to
get wrong; the gate then checks every operation against the messages.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import apsw

from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.memory.languages import lexicon, speech
from nexus.memory.languages.cues import compile_cue
from nexus.memory.languages.dates import add_dates, find_moments
from nexus.memory.normalisation import normalize
from nexus.memory.recall.roles import is_role, roles_called
from nexus.memory.references import find_called, find_meant
from nexus.roles.memory_writer import anchors
from nexus.roles.memory_writer.evidence import UNNAMED, Heard, words
from nexus.roles.memory_writer.extraction import Draft, Extraction, Source
from nexus.roles.memory_writer.names import EMAIL


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PHONE: Final = re.compile(r"(?<![\w+])\+?\d[\d\s().\-/]{6,18}\d(?!\w)")
_ADDRESS: Final = re.compile(
    r"(?i)\b(?:lives at|address is|address:|moved to \d|wohnt in der|adresse ist|direcci[óo]n es|adresse est|"
    r"endere[çc]o [ée])\b(?P<value>[^.]*\d[^.]*)"
)
_ORGANIZATION: Final = re.compile(
    r"(?i)\b(?:inc|ltd|llc|gmbh|ag|corp|bank|university|universität|group|company|school|hospital|clinic|sa|kg|ab)\b\.?$"
)
_PROJECT: Final = re.compile(r"(?i)\b(?:project|projekt|proyecto|projet|projeto|progetto)\b")
_TIES: Final = (
    (
        re.compile(r"(?i)\b(?:works?|worked|arbeitet|job) (?:at|for|bei|für) (?P<name>.+)"),
        "WORKS_AT",
        "Organization",
    ),
    (
        re.compile(r"(?i)\b(?:lives?|wohnt|lebt|vive|habite|mora) (?:in|à|en|em) (?P<name>.+)"),
        "LIVES_IN",
        "Place",
    ),
    (re.compile(r"(?i)\b(?:leads?|leitet|manages?) (?P<name>.+)"), "LEADS", "Unknown"),
    (re.compile(r"(?i)\b(?:works on|arbeitet an) (?P<name>.+)"), "WORKS_ON", "Project"),
)
_KIN: Final = re.compile(
    r"(?:(?:[Tt]he owner|[^\W\d_a-z][\w-]+(?:\s+[^\W\d_a-z][\w-]+)?)['\u2019]s"
    r"|(?i:my|their|his|her|our|meine?|seine?|ihre?|unsere?|mi|su|ma|mon|sa|son|minha|meu))\s+"
    r"(?P<role>[^\W\d_]+)\s+(?P<name>[^\W\d_a-z][\w-]+(?:\s+[^\W\d_a-z][\w-]+)?)"
)
_PRONOUN: Final = re.compile(r"(?i)^(?:he|she|they|it|er|sie|él|ella|il|elle|ele|ela|lui|lei)\b(?!')\s*")
_POSSESSIVE: Final = re.compile(r"(?i)^(?:his|her|their|its|ihr|seine?|su|sa|son)\s+")
_THE: Final = re.compile(r"The (?P<thing>[^\W\d_]+(?:[ -][^\W\d_]+){0,2})")
_USER: Final = re.compile(r"(?i)\b(?:the (?:user|owner|speaker)|user)\b")
# Whom a sentence is about, and whom it names as their relative.
_HOLDERS: Final = 2
_NAMELESS: Final = "The owner"
_VERBS: Final = {
    "am": "is", "'m": "is", "have": "has", "'ve": "has", "do": "does", "don't": "doesn't", "go": "goes",
    "was": "was", "were": "was", "haven't": "hasn't", "'ll": "will", "'d": "would",
}  # fmt: skip
_MODAL: Final = _set("can can't cannot will won't must should shouldn't would might may could")
_ADVERB: Final = _set("also really just now always never usually often still no only currently")
# Words that begin sentences in facts and name nobody.
_SENTENCE_STARTS: Final = _set(
    "next new old dinner lunch breakfast flight meeting appointment deadline birthday trip dentist house car"
)
_PAST: Final = _set("went met saw came got took gave left bought told said had did")


@dataclass(kw_only=True)
class Drafting:
    """The operations of one extraction. Reads the identity ledger: use it in a read of that."""

    connection: apsw.Connection
    sources: Sequence[Source]
    meant: Mapping[str, str]
    """Entities that the messages mean without naming them, by how they are called there."""
    notes: Sequence[str] = ()
    """The facts that the model was shown, in the order of their numbers."""
    phone_region: str = ""
    _people: set[str] = field(default_factory=set[str])
    _entities: dict[str, str] = field(default_factory=dict[str, str])
    """Names that operations refer to, in one form, with the entity or the name to be made."""
    _made: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _introductions: dict[str, str] = field(default_factory=dict[str, str])

    def draft_operations(self, found: Extraction) -> list[dict[str, Any]]:
        """Draft what is to be written, entities first."""
        self._people = {normalize(person.name) for person in found.people}
        named = list(self._draft_introductions(found))
        facts = [operation for draft in found.facts for operation in self._draft_fact(draft)]
        aliases = [
            operation
            for person in found.people
            if person.also_called
            for operation in self._draft_alias(person.name, person.also_called)
        ]
        return _drop_duplicates([*self._made, *named, *facts, *aliases])

    def _draft_introductions(self, found: Extraction) -> Iterator[dict[str, Any]]:
        """Draft the names of people who say what they are called and were nameless so far."""
        for heard in {id(source.heard): source.heard for source in self.sources}.values():
            speaker, name = heard.speaker, _find_introduction(heard)
            if speaker is None or name is None:
                continue
            said = {*self._people, *(normalize(draft.about) for draft in found.facts)}
            told = normalize(" ".join(draft.fact for draft in found.facts))
            if not _list_forms(name) & said and normalize(name) not in told:
                continue
            self._introductions[speaker] = name
            self._entities[normalize(name)] = speaker
            self._entities.setdefault(normalize(name.split()[0]), speaker)
            if heard.is_unnamed and heard.message is not None and heard.message.is_owners:
                yield {"operation": "describe", "entity": speaker, "name": name, "event": heard.event_id}

    def _draft_fact(self, draft: Draft) -> Iterator[dict[str, Any]]:
        source = self._find_source(draft)
        if source is None:
            return
        heard = source.heard
        speaker = heard.speaker
        called_ = self._introductions.get(speaker or "") or ("" if heard.is_unnamed else heard.name)
        about = self._find_subject(draft, heard)
        text = _complete_sentence(draft, about == speaker or not draft.about, called_ or _NAMELESS)
        text = _add_owner(text, heard, called_ or _NAMELESS)
        text = add_dates(_correct_subject(text, heard, called_ or _NAMELESS), heard.said_on)
        if text.strip() == called_:
            return
        if about == speaker and (opening := " ".join(anchors.find_opening(text))):
            about = self._resolve_entity(opening, heard) or about
        given: dict[str, Any] = {
            "event": heard.event_id,
            "as_of": heard.message.event.occurred_at if heard.message else None,
        }
        if draft.replaces is not None and 0 < draft.replaces <= len(self.notes):
            given |= {"replaces": [self.notes[draft.replaces - 1]], "how": draft.how}
        others = [each for each in self._find_entities(text, heard) if each != about]
        tie = self._find_tie(text, about, speaker, others, heard)
        if tie is not None:
            yield {"operation": "relationship", "source": about, "fact": text, **tie, **given}
        else:
            entities = {"entities": others} if others else {}
            yield {"operation": "fact", "about": about, "fact": text, **entities, **given}
        if about is not None:
            yield from self._draft_hard_facts(text, about, heard)

    def _find_source(self, draft: Draft) -> Source | None:
        """Find the message that a fact cites; for a wrong number, the one that shares most words with it."""
        by_number = {source.number: source for source in self.sources}
        if draft.message in by_number:
            return by_number[draft.message]
        wanted = anchors.find_mentions([draft.fact], []).words
        return max(
            self.sources,
            key=lambda each: len(wanted & anchors.find_mentions([each.text], []).words),
            default=None,
        )

    def _find_subject(self, draft: Draft, heard: Heard) -> str | None:
        """Find whom a fact is about: an id, a name that is to be made, or the speaker."""
        speaker = heard.speaker
        name = re.sub(r"['\u2019]s$", "", draft.about.strip())
        # "The owner's sister Elin's birthday" is about Elin, whatever a small model says.
        kin = _KIN.match(draft.fact)
        opening = " ".join(anchors.find_opening(draft.fact))
        own = _list_forms(heard.name) | _list_forms(self._introductions.get(speaker or "", ""))
        if kin and is_role(speech.normalize(kin["role"])) and _is_proper(kin["name"], heard):
            name = kin["name"]
        elif speech.is_first_person(name) and normalize(opening) not in own and _is_proper(opening, heard):
            name = opening  # and so is "Elin is vegetarian"
        if not name or speech.is_first_person(name) or _USER.fullmatch(name):
            return speaker
        if speaker is not None and heard.name and normalize(name) in _list_forms(heard.name):
            return speaker
        for said, id_ in self.meant.items():
            if normalize(name) in (normalize(said), normalize(said.split()[-1])):
                return id_
        found = self._resolve_entity(name, heard)
        if found is not None:
            return found
        # A common noun, as "flight": it is a fact about whom the sentence names, or about who said it.
        return next(iter(self._find_entities(draft.fact, heard)), speaker)

    def _resolve_entity(self, name: str, heard: Heard) -> str | None:
        """Find an entity by a name, or note that it is to be made if the name is a proper one."""
        form = normalize(name)
        if form in _list_forms(heard.name) and heard.speaker:
            return heard.speaker
        if form not in self._entities:
            known = self._find_known(name)
            if known is None and not _is_proper(name, heard):
                return None
            self._entities[form] = known or name
            if known is None:
                self._made.append(self._make_entity(name, heard))
        return self._entities[form]

    def _find_known(self, name: str) -> str | None:
        try:
            known = find_meant(self.connection, name, self.phone_region)
        except UsageError:
            return None
        if known is not None or " " not in name.strip():
            return known
        # "Hana Novak" is the Hana who is known, where there is one and she has no other name.
        first = find_called(self.connection, name.split()[0], self.phone_region)
        rows = [self.connection.execute(sql.queries("identity")["name_of"], (id_,)).get for id_ in first]
        same = [
            id_
            for id_, full in zip(first, rows, strict=True)
            if normalize(str(full)) == normalize(name.split()[0])
        ]
        return same[0] if len(same) == 1 else None

    def _make_entity(self, name: str, heard: Heard) -> dict[str, Any]:
        type_ = self._guess_type(name, heard.text)
        first = [name.split()[0]] if type_ == "Person" and " " in name else []
        return {
            "operation": "entity",
            "name": name,
            "type": type_,
            "event": heard.event_id,
            **({"alias": [f"{first[0]}:name"]} if first else {}),
        }

    def _guess_type(self, name: str, text: str) -> str:
        if _PROJECT.search(name) or re.search(rf"(?i){_PROJECT.pattern}\s+{re.escape(name)}\b", text):
            return "Project"
        if _ORGANIZATION.search(name):
            return "Organization"
        if re.search(rf"\b(?:in|to|from|at|near|nach|aus|en|à|em|de) {re.escape(name)}\b", text):
            return "Unknown" if normalize(name) in self._people else "Place"
        words = speech.normalize(text).split()
        is_kin = any(is_role(word.strip(".,!?;:")) for word in words)
        return "Person" if normalize(name) in self._people or is_kin else "Unknown"

    def _find_entities(self, text: str, heard: Heard) -> list[str]:
        """Find the entities that a sentence names, known or to be made by this batch."""
        language = speech.languages(text)[0]
        found: dict[str, None] = {}
        for run in _find_names(text, language):
            for name in (run, *run.split()):
                known = self._entities.get(normalize(name)) or self._find_known(name)
                if known is None and normalize(name) in self._people:
                    known = self._resolve_entity(name, heard)
                if known is not None:
                    found[known] = None
                    break
        return list(found)

    def _find_tie(
        self, text: str, about: str | None, speaker: str | None, others: Sequence[str], heard: Heard
    ) -> dict[str, Any] | None:
        """Find how a fact ties its subject to somebody or something else, if it says so plainly."""
        if about is None:
            return None
        words = re.findall(r"[^\W\d_]+", speech.normalize(text))
        spoken = frozenset(speech.languages(text))
        roles = [role for word in words if is_role(word) for role in roles_called(word, spoken)]
        target = others[0] if others else speaker if about != speaker else None
        if roles and target is not None and len(words) <= 12:
            return {"target": target, "type": roles[0].relation.upper()}
        for pattern, type_, kind in _TIES:
            match = pattern.search(text)
            names = list(_find_names(match["name"], speech.languages(text)[0])) if match else []
            if match and names and match["name"].startswith(names[0]):
                known = self._entities.get(normalize(names[0])) or self._find_known(names[0])
                if known is None:
                    known = self._entities[normalize(names[0])] = names[0]
                    new = {"operation": "entity", "name": names[0], "type": kind, "event": heard.event_id}
                    self._made.append(new)
                return {"target": known, "type": type_} if known != about else None
        return None

    def _draft_hard_facts(self, text: str, about: str, heard: Heard) -> Iterator[dict[str, Any]]:
        """Draft the identity data in a sentence, which is looked up by its kind, not by its words."""
        if len({about, *self._find_entities(text, heard)}) > _HOLDERS:
            return  # of several people, whose it is cannot be told by rule
        given = {"entity": about, "event": heard.event_id}
        for email in EMAIL.findall(text):
            yield {"operation": "alias", "alias": [f"{email}:email"], **given}
        phone = _PHONE.search(text) if compile_cue("phone").search(text) else None
        if phone:
            yield {"operation": "alias", "alias": [f"{phone[0].strip()}:phone"], **given}
        for type_, category, value in _find_person_facts(text):
            said = {"as_of": heard.message.event.occurred_at} if heard.message else {}
            yield {
                "operation": "person-fact",
                "category": category,
                "type": type_,
                "value": value,
                **given,
                **said,
            }

    def _draft_alias(self, name: str, also: str) -> Iterator[dict[str, Any]]:
        """Draft another name, if a message says in so many words that it is one."""
        for source in self.sources:
            heard = source.heard
            spoken = speech.languages(heard.text)
            for sentence in speech.sentences(heard.text):
                if also in sentence and speech.says("naming", sentence, spoken):
                    entity = self._resolve_entity(name, heard)
                    if entity is not None:
                        yield {
                            "operation": "alias",
                            "entity": entity,
                            "alias": [f"{also}:name"],
                            "event": heard.event_id,
                        }
                    return


def _find_person_facts(text: str) -> Iterator[tuple[str, str, str]]:
    spoken = speech.languages(text)
    dates = [each for each in find_moments(text, spoken) if each.day and each.month]
    if compile_cue("birthday").search(text) and dates:
        on = dates[0]
        year = f"{on.year:04}" if on.year else "-"
        yield "birthday", "personal", f"{year}-{on.month:02}-{on.day:02}"
    if compile_cue("diet").search(text) and not _PHONE.search(text):
        yield "diet", "diet", text.rstrip(".")
    address = _ADDRESS.search(text)
    if address:
        yield "address", "contact", address["value"].strip(" :,")


def _complete_sentence(draft: Draft, is_speaker: bool, name: str) -> str:
    """Complete a fact to a sentence that says whom it is about."""
    text = draft.fact.strip()
    subject = name if is_speaker else draft.about.strip() or name
    text = _USER.sub(
        lambda match: name if match.start() == 0 or name != _NAMELESS else _NAMELESS.lower(), text
    )
    # "The owner is Mara, and she lives …" says one thing twice.
    twice = rf"(?i)^{re.escape(name)}(?:'s name)? is {re.escape(name)}(?:,? and (?:she|he|they) |\.?$)"
    text = re.sub(twice, f"{name} ", text)
    if _PRONOUN.match(text) and not is_role(speech.normalize(subject)):
        return _PRONOUN.sub(f"{subject} ", text, count=1)
    if _POSSESSIVE.match(text):
        return _POSSESSIVE.sub(f"{subject}'s ", text, count=1)
    if is_speaker:
        text = _put_in_third_person(text, name)
    told = anchors.find_mentions([text], [])
    if speech.normalize(subject) in speech.normalize(text) or any(
        told.names(part) for part in subject.split() if subject != _NAMELESS
    ):
        return text
    if text[:1].islower():
        return f"{subject} {text}"
    # A sentence about a thing of the speaker's stands by itself: "The flight is on 17 December".
    return text if is_speaker else f"{subject}: {text}"


def _add_owner(text: str, heard: Heard, name: str) -> str:
    """Add whose boss it is to "The boss is Ingrid", if the message says "my boss". English only."""
    said = speech.normalize(heard.text)
    match = _THE.match(text)
    things = match["thing"].split() if match else []
    for length in range(len(things), 0, -1):
        thing = " ".join(things[:length])
        if re.search(rf"\b(?:my|our) {re.escape(speech.normalize(thing))}\b", said):
            return f"{name}'s {text[len('The ') :]}"
    return text


def _correct_subject(text: str, heard: Heard, name: str) -> str:
    """Correct the subject of a sentence if the message says it of somebody else than the speaker."""
    if not text.startswith((f"{name} ", f"{name}'s ")):
        return text
    spoken = speech.languages(heard.text)
    wanted = words(text) - words(name)
    subject, best, shared = "", "", 0
    for clause in speech.clauses(heard.text):
        opening = " ".join(anchors.find_opening(clause.text))
        is_subject = len(clause.text.split()) > len(opening.split()) + 1
        if (
            opening
            and is_subject
            and _is_proper(opening, heard)
            and not speech.speaks_of_self(clause.text, spoken)
        ):
            subject = opening
        elif not speech.speaks_of_others(clause.text, spoken):
            subject = ""
        if clause.asserts and len(wanted & words(clause.text)) > shared:
            best, shared = subject, len(wanted & words(clause.text))
    return f"{best}{text[len(name) :]}" if best and best not in name else text


def _put_in_third_person(text: str, name: str) -> str:
    """Put "I live in Oslo" as "Mara lives in Oslo". English only; the source says who said the rest."""
    text = re.sub(r"(?i)^my\b", f"{name}'s", text)
    match = re.match(r"(?i)^i(?P<short>['\u2019](?:m|ve|ll|d))?\s+(?P<rest>.*)$", text)
    if match:
        if match["short"]:
            verb = _VERBS[match["short"].replace("\u2019", "'").lower()]
            text = f"{name} {verb} {match['rest']}"
        else:
            words = match["rest"].split()
            place = next((n for n, word in enumerate(words) if word.lower() not in _ADVERB), 0)
            words[place] = _conjugate(words[place])
            text = f"{name} {' '.join(words)}"
    text = re.sub(r"\b(?:my|our)\b", "their", text)
    return re.sub(r"\bme\b", name, text)


def _conjugate(verb: str) -> str:
    plain = verb.lower()
    if plain in _VERBS:
        return _VERBS[plain]
    if plain in _MODAL or plain.endswith("ed") or not plain.isalpha():
        return verb
    if plain in _PAST:
        return verb
    if plain.endswith(("s", "sh", "ch", "x", "o", "z")):
        return f"{verb}es"
    if plain.endswith("y") and plain[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _find_introduction(heard: Heard) -> str | None:
    """Find what somebody says they are called."""
    if heard.message is None:
        return None
    for clause in speech.clauses(heard.text):
        for code in speech.languages(heard.text):
            match = re.search(lexicon(code).cues["introduces"], clause.text, re.IGNORECASE)
            if clause.asserts and match:
                name = re.match(
                    r"[^\W\d_a-z][\w\u2019'-]+(?:\s+[^\W\d_a-z][\w\u2019'-]+){0,3}",
                    clause.text[match.end() :],
                )
                if name and not anchors.is_common(name[0].split()[0], code):
                    return name[0].rstrip("'\u2019")
    return None


def _find_names(text: str, language: str) -> Iterator[str]:
    """Find the names of a sentence; those that stand together are one."""
    found = anchors.found(text, language)
    first = re.match(r"[^\W\d_a-z][\w\u2019'-]*", text)
    if first and not anchors.is_common(first[0], language):
        found = [re.sub(r"['\u2019]s$", "", first[0]), *found]
    run: list[str] = []
    end = 0
    for word in dict.fromkeys(found):
        place = text.find(word, end)
        if run and text[end:place].strip(" ") == "" and place >= 0:
            run.append(word)
        else:
            if run:
                yield " ".join(run)
            run = [word]
        end = (place if place >= 0 else end) + len(word)
    if run:
        yield " ".join(run)


def _is_proper(name: str, heard: Heard) -> bool:
    """Whether a name is a proper one: the message has it, with a capital, and it is no role."""
    if not name or is_role(speech.normalize(name)) or len(name) > 60 or name == UNNAMED:
        return False
    words = name.split()
    has_capital = all(word[:1].isupper() or word[:1].isdigit() or len(word) <= 3 for word in words)
    if not name.isascii() and not any(letter.isupper() for letter in name):
        return name in f"{heard.answers} {heard.text}"  # a script without capitals
    language = speech.languages(heard.text)[0]
    if (
        not has_capital
        or not words[0][:1].isupper()
        or (len(words) == 1 and anchors.is_common(name, language))
    ):
        return False
    return speech.normalize(words[0]) not in _SENTENCE_STARTS


def _list_forms(name: str) -> set[str]:
    return {normalize(each) for each in (name, *name.split()[:1])}


def _drop_duplicates(operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = {}
    for operation in operations:
        plain = {name: value for name, value in operation.items() if value is not None}
        key = {name: value for name, value in plain.items() if name not in {"event", "as_of"}}
        seen.setdefault(repr(sorted(key.items())).casefold(), plain)
    return list(seen.values())
