"""What was said in a turn, and what was only remembered in it.

A memory that was injected and is written down again would count as one more observation of itself. So a
statement that a memory explains better than what was said is not written. What is written goes by whoever
said it: the message or the tool's result that holds most of its words.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nexus.memory.languages import DEFAULT, mixture
from nexus.memory.recall.words import function_words, tokens

if TYPE_CHECKING:
    from nexus.roles.memory_writer.turns import Message

# How much of a statement's own words one memory must hold to explain it.
_EXPLAINED = 0.6
# The same for all memories together, where next to nothing of the statement was said.
_PIECED_TOGETHER = 0.75
_HARDLY_SAID = 0.25
# How much of a statement a message must hold to count as saying it.
_SAID = 0.4
_TAGS = re.compile(r"</?\w+[^>]*>")


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A message, or what a tool gave."""

    text: str
    message: "Message | None" = None
    tool: str | None = None
    words: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", words(self.text))

    def holds(self, own: frozenset[str], whole: frozenset[str]) -> float:
        """How much of a statement stands in it: of what it says, and of whom as well."""
        return min(_share(own, self.words), _share(whole, self.words))


@dataclass(kw_only=True)
class Evidence:
    """The texts of one writer's run, as sets of words."""

    heard: list[Heard] = field(default_factory=list[Heard])
    """Everything that the conversation shows but memories, the oldest first."""
    said: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    remembered: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def hear(self, texts: Iterable[str]) -> None:
        """Take note of what people said, or a tool found out."""
        self.said += [words(text) for text in texts]

    def remember(self, texts: Iterable[str]) -> None:
        """Take note of what came from the memory: each line is one."""
        for text in texts:
            for line in _TAGS.sub("", text).splitlines():
                if line.strip():
                    self.remembered[line.strip()] = words(line)

    def memory_behind(self, statement: str, names: Iterable[str] = ()) -> str | None:
        """The memory that a statement repeats without anybody having said it; None where it is news."""
        own = words(statement) - words(" ".join(names)) or words(statement)
        # A copy: this runs on a thread, and what is looked up meanwhile is remembered as well.
        remembered = dict(self.remembered)
        if not own or not remembered:
            return None
        said = max((_share(own, heard) for heard in self.said), default=0.0)
        line, held = max(remembered.items(), key=lambda memory: _share(own, memory[1]))
        if _share(own, held) >= _EXPLAINED and _share(own, held) > said:
            return line
        together = frozenset[str]().union(*remembered.values())
        return line if said < _HARDLY_SAID and _share(own, together) >= _PIECED_TOGETHER else None

    def supporter(self, statement: str, names: Iterable[str], asked: str | None = None) -> Heard | None:
        """What says a statement best; None where nothing does.

        Of two that say it alike the one that is asked for counts, then people before tools, then the later.
        """
        whole = words(statement)
        own = whole - words(" ".join(names)) or whole
        if not own:
            return None

        def rank(numbered: tuple[int, Heard]) -> tuple[float, bool, bool, int]:
            number, heard = numbered
            is_asked = heard.message is not None and heard.message.event.id == asked
            return (heard.holds(own, whole), is_asked, heard.message is not None, number)

        best = max(enumerate(self.heard), key=rank, default=None)
        return best[1] if best and best[1].holds(own, whole) >= _SAID else None


def words(text: str) -> frozenset[str]:
    """The words of a text that carry content, stemmed."""
    return frozenset(tokens(text)) - function_words(DEFAULT, *mixture(text))


def _share(own: frozenset[str], held: frozenset[str]) -> float:
    return len(own & held) / len(own)
