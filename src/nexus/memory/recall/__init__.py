"""Recall: find the right few things, fast, and say why. No language model is called."""

from nexus.memory.recall.item import Answer, Budget, Item, Kind, Query, Reasons, Result
from nexus.memory.recall.recall import Recall

__all__ = ["Answer", "Budget", "Item", "Kind", "Query", "Reasons", "Recall", "Result"]
