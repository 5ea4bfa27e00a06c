"""Recall: find the right few things, fast, and say why. No language model is called."""

from nexus.memory.recall.deadline import Deadline
from nexus.memory.recall.item import (
    Answer,
    Budget,
    Item,
    Kind,
    Link,
    Query,
    Reasons,
    Replacement,
    Result,
    Sighting,
    kinds,
)
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import ARMS, Arm, Search
from nexus.request import EVERYTHING, Visibility

__all__ = [
    "ARMS",
    "EVERYTHING",
    "Answer",
    "Arm",
    "Budget",
    "Deadline",
    "Item",
    "Kind",
    "Link",
    "Query",
    "Reasons",
    "Recall",
    "Replacement",
    "Result",
    "Search",
    "Sighting",
    "Visibility",
    "kinds",
]
