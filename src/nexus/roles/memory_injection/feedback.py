"""Whether an answer used what was injected: it names the id, or says what only the memory could have told it.

Cheap and the same every time: words are compared, no model is asked. What was told apart from the task's own
words counts; an answer that says a memory in entirely other words is not noticed.
"""

from typing import Final

from nexus.automations.context import Context
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import injections
from nexus.ledgers.runtime.injections import Sign
from nexus.memory.languages import DEFAULT, mixture
from nexus.memory.recall.words import function_words, split_words
from nexus.roles.memory_injection import formatting

# So many of the words that a memory has beyond the task, or this share of them where it has few.
_WORDS: Final = 2
_SHARE: Final = 0.5


class Use:
    """Records, after an answer, which injected memories it used."""

    def __init__(self, ledgers: Ledgers) -> None:
        self._ledgers = ledgers

    async def __call__(self, context: Context) -> None:
        told = formatting.parse_memories(str(context.request.enrichment.get("memories", "")))
        if context.result is None or not told:
            return
        used = find_signs(told, task=context.request.event.content, answer=context.result.response.content)
        await self._ledgers.runtime.write(
            injections.mark_used, request_id=context.request.request_id, used=used
        )


def find_signs(told: dict[str, str], *, task: str, answer: str) -> dict[str, Sign | None]:
    """Find for each memory, by its id, what shows that the answer used it."""
    said, known = _find_words(answer), _find_words(task)
    return {id_: _find_sign(id_, _find_words(text) - known, answer, said) for id_, text in told.items()}


def _find_sign(id_: str, own: frozenset[str], answer: str, said: frozenset[str]) -> Sign | None:
    if id_ in answer:
        return "id"
    shared = own & said
    return "words" if shared and len(shared) >= min(_WORDS, _SHARE * len(own)) else None


def _find_words(text: str) -> frozenset[str]:
    return split_words(text).distinct - function_words(DEFAULT, *mixture(text))
