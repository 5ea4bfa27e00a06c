"""Reading what the model concluded: only what cites facts that it was shown is taken."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from nexus.errors import UnusableAnswerError
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.observations import Conclusions, Draft

_LONGEST: Final = 2_000
_OBSERVATION: Final = re.compile(r"O([1-9][0-9]*)")


def read(text: str, batch: Batch) -> Conclusions:
    """The conclusions of an answer, which is used in whole or not at all: an error says what is wrong."""
    answer = _object(text)
    given = answer.get("observations", [])
    if not isinstance(given, list):
        raise UnusableAnswerError("`observations` is not a list")
    drafts = tuple(_draft(each, batch) for each in cast("list[object]", given))
    revised = [draft.revises for draft in drafts if draft.revises]
    if len(set(revised)) < len(revised):
        raise UnusableAnswerError("One observation is revised twice")
    cited = {id_ for draft in drafts for id_ in draft.fact_ids}
    nothing = _facts(answer.get("nothing_new", []), batch)
    skipped = tuple(id_ for id_ in nothing if id_ in batch.fact_ids and id_ not in cited)
    if not cited.intersection(batch.fact_ids) and not skipped:
        raise UnusableAnswerError("The answer names none of the new facts")
    return Conclusions(drafts=drafts, skipped=skipped)


def _object(text: str) -> Mapping[str, Any]:
    """The JSON object in an answer; words around it, or a fence, are a habit of models and harm nothing."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found: object = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError) as error:
        raise UnusableAnswerError(f"The answer is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnusableAnswerError("The answer holds no JSON object")
    return cast("dict[str, Any]", found)


def _draft(given: object, batch: Batch) -> Draft:
    if not isinstance(given, dict):
        raise UnusableAnswerError("An observation is not an object")
    fields = cast("dict[str, object]", given)
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UnusableAnswerError("An observation has no text")
    if len(text) > _LONGEST:
        raise UnusableAnswerError(f"An observation is longer than {_LONGEST} characters")
    facts = _facts(fields.get("facts"), batch)
    if not facts:
        raise UnusableAnswerError("An observation cites no fact")
    return Draft(text=" ".join(text.split()), fact_ids=facts, revises=_revised(fields.get("revises"), batch))


def _facts(numbers: object, batch: Batch) -> tuple[str, ...]:
    shown = batch.shown_ids
    listed = cast("list[object]", numbers) if isinstance(numbers, list) else [None]
    for number in listed:
        if type(number) is not int or not 1 <= number <= len(shown):
            raise UnusableAnswerError(f"{number!r:.40} is not the number of a fact that was shown")
    return tuple(dict.fromkeys(shown[cast("int", number) - 1] for number in listed))


def _revised(name: object, batch: Batch) -> str | None:
    if name in (None, ""):
        return None
    named = _OBSERVATION.fullmatch(name) if isinstance(name, str) else None
    if named is None or int(named[1]) > len(batch.observation_ids):
        raise UnusableAnswerError(f"{name!r:.40} is not an observation that was shown")
    return batch.observation_ids[int(named[1]) - 1]
