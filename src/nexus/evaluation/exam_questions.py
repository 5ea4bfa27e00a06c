"""The questions of an exam: from the ledger's own words, or worded by a model."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from nexus.broker.agent.models import Models
from nexus.broker.agent.trial import Account, ask_once
from nexus.errors import ModelError
from nexus.memory.languages import detect
from nexus.memory.recall.words import forms, function_words
from nexus.runs import Totals

PURPOSE: Final = "exam"
"""Under this name the ledger keeps what wording questions used, in the place of a request."""
WORDINGS: Final = 3
"""Questions that a model writes for each fact."""
_FACTS_A_CALL: Final = 20
_BYTES_PER_TOKEN: Final = 4.0
_ANSWER_TOKENS_A_FACT: Final = 70
_LONGEST: Final = 300
_SENTENCES: Final = re.compile(r"(?<=[.!?…\n])\s+")
_LIST: Final = re.compile(r"^\s*(\d+)[.)]\s*(.+?)\s*$")
_PROMPT: Final = """\
These are notes of a personal assistant about {owner} and the people around them. For each, write {count} \
short questions to which the note is the answer, as {owner} would ask them months later: in everyday words, \
in the note's language, in words other than the note's own where that is natural, and without giving the \
answer away. Don't ask about anything that the note doesn't say.

Notes:
{notes}

Answer with lines only, {count} for each note, each as the note's number, a dot, and one question:
1. first question about note 1
1. second question about note 1
2. first question about note 2"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """A fact of the sample, with what its questions are made of."""

    id: str
    text: str
    created_at: str
    relation_type: str | None
    subject_id: str | None
    entity_ids: frozenset[str]
    """All that it is tied to, and what is one with these."""
    subject: str | None
    """What its subject is called, in the words of the fact or its message where they name it."""
    names: frozenset[str] = frozenset()
    """What its subject goes by, normalized."""
    target: str | None = None
    message: str | None = None
    stated_by: frozenset[str] = frozenset()
    """Ids of what states it: itself, and observations that rest on it."""
    is_owner: bool = False
    """Whether it is about the owner, as is the next about a person or a pet."""
    is_person: bool = False
    names_somebody: bool = True
    """Whether its text names anybody or anything that it is tied to."""
    is_sourced: bool = True
    """Whether what it came from is still there, or a person vouches for it."""
    had_source: bool = True
    """Whether it names a message or a request that it came from."""
    is_pinned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One question. With an entity, only what is about it may be the answer."""

    text: str
    entity: str | None = None


def make_questions(fact: Sampled) -> list[Asked]:
    """Make questions for a fact of its own words and those of its message.

    By its attribute (the beginning, which says what it is about), by its value (the rest), by the sentence
    in which it was said, and among all that is known of its subject.
    """
    language = detect(fact.text)
    named = {part for name in fact.names for part in forms(name, language)}
    empty = function_words(language)
    content = [form for word, form in forms(fact.text, language).items() if word not in empty | named]
    middle = (len(content) + 1) // 2
    relation = [(fact.relation_type or "").replace("_", " ").lower()] if fact.relation_type else []
    subject = [fact.subject] if fact.subject else []
    attribute, value = content[:middle], content[middle:]
    if fact.target and fact.target.lower() not in " ".join(value).lower():
        value = [*value, fact.target]
    found = [Asked(text=" ".join([*subject, *relation, *attribute]))]
    if value:
        found.append(Asked(text=" ".join([*subject, *value])))
    if fact.message:
        found.append(Asked(text=choose_sentence(fact.message, content)))
    if fact.subject:
        found.append(Asked(text=" ".join([*relation, *attribute]) or fact.subject, entity=fact.subject))
    unique = dict.fromkeys(each for each in found if each.text.strip())
    return list(unique) or [Asked(text=fact.text[:_LONGEST])]


def choose_sentence(message: str, words: Collection[str]) -> str:
    """Choose the sentence of a message that says most of some words."""
    wanted = {word.lower() for word in words}
    sentences = [each.strip() for each in _SENTENCES.split(message) if each.strip()] or [message]
    best = max(sentences, key=lambda each: sum(word in each.lower() for word in wanted))
    return best[:_LONGEST]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What wording the questions would take."""

    facts: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None
    """None where nobody knows the model's price."""


async def estimate(models: Models, model: str, facts: Sequence[Sampled], owner: str) -> Estimate:
    """Estimate what wording questions for these facts would take, without calling the model."""
    prompts = [_write_prompt(batch, owner) for batch in batch_facts(facts)]
    input_tokens = round(sum(len(prompt.encode()) for prompt in prompts) / _BYTES_PER_TOKEN)
    output_tokens = _ANSWER_TOKENS_A_FACT * len(facts)
    cost = await models.cost_microusd(
        model, input_tokens=input_tokens, cached_tokens=0, output_tokens=output_tokens
    )
    return Estimate(
        facts=len(facts),
        calls=len(prompts),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_microusd=cost,
    )


@dataclass(kw_only=True)
class Wordings:
    """Asks a model to word questions, on the home's budget."""

    models: Models
    model: str
    account: Account
    owner: str
    spent: Totals = field(default_factory=Totals)

    async def write(self, facts: Sequence[Sampled]) -> dict[str, list[str]]:
        """Ask for questions for a few facts; those that the model skipped are left out."""
        await self.account.check_home()
        answer, attempt = await ask_once(self.models, self.model, _write_prompt(facts, self.owner))
        await self.account.bill(attempt, PURPOSE)
        self.spent += Totals(
            calls=1,
            input_tokens=attempt.input_tokens,
            output_tokens=attempt.output_tokens,
            cost_microusd=attempt.cost_microusd or 0,
            unpriced_calls=int(attempt.cost_microusd is None),
        )
        found = parse_questions(answer, [fact.id for fact in facts])
        if not found:
            raise ModelError(
                f"{self.model} wrote no questions", hint="Choose another model, or leave out --model."
            )
        return found


def parse_questions(answer: str, ids: Sequence[str]) -> dict[str, list[str]]:
    """Parse the lines of an answer; whatever else it says is ignored."""
    found: dict[str, list[str]] = {}
    for line in answer.splitlines():
        match = _LIST.match(line)
        if match is None or not 1 <= int(match[1]) <= len(ids):
            continue
        some = found.setdefault(ids[int(match[1]) - 1], [])
        if len(some) < WORDINGS:
            some.append(match[2][:_LONGEST])
    return found


def batch_facts(facts: Sequence[Sampled]) -> list[Sequence[Sampled]]:
    """Cut facts into what one call is asked about."""
    return [facts[start : start + _FACTS_A_CALL] for start in range(0, len(facts), _FACTS_A_CALL)]


def _write_prompt(facts: Sequence[Sampled], owner: str) -> str:
    notes = "\n".join(
        f"{number}. {json.dumps(_describe(fact), ensure_ascii=False)[1:-1]}"
        for number, fact in enumerate(facts, start=1)
    )
    return _PROMPT.format(owner=owner, count=WORDINGS, notes=notes)


def _describe(fact: Sampled) -> str:
    about = f"About {fact.subject}: " if fact.subject and fact.subject not in fact.text else ""
    return f"{about}{' '.join(fact.text.split())}"[:_LONGEST]
