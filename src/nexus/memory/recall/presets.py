"""How much a recall may spend: which arms, how many candidates, how long. The numbers are data."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nexus.memory.recall.item import Budget


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """One budget's numbers."""

    arms: frozenset[str]
    candidates: int  # what each arm may bring
    matched_rows: int  # what a full-text query may match before common words are left out
    temporal_candidates: int
    reranked: int  # how many of the best a reranker reads, where there is one
    deadline_ms: int


@cache
def preset(budget: Budget) -> Preset:
    """The preset of a budget."""
    text = Path(__file__).with_name("presets.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)[budget]
    arms = frozenset(data.pop("arms"))
    return Preset(arms=arms, **data)
