"""Recall: find the right few things, fast, and say why. No language model is called."""

from nexus.memory.recall.item import (
    Budget,
    Item,
    Kind,
    Link,
    Match,
    Matches,
    Query,
    Reasons,
    Replacement,
    Sighting,
    kinds,
)
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import ARMS, Arm, Search
from nexus.request import EVERYTHING, Visibility

__all__ = [
    "ARMS",
    "EVERYTHING",
    "Arm",
    "Budget",
    "Deadline",
    "Item",
    "Kind",
    "Link",
    "Match",
    "Matches",
    "Query",
    "Reasons",
    "Recall",
    "Replacement",
    "Search",
    "Sighting",
    "Visibility",
    "kinds",
]
