"""Languages: which one a text is written in, its stems, its function words, and how it asks."""

from nexus.memory.languages.detection import DEFAULT, detect, mixture
from nexus.memory.languages.lexicon import Lexicon, fold, lexicon, stem

__all__ = ["DEFAULT", "Lexicon", "detect", "fold", "lexicon", "mixture", "stem"]
