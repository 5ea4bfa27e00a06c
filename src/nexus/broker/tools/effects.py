"""What a server's tool does that can't be taken back, by what it is called."""

import re
from typing import Final

from nexus.broker.tools.tool import Effect

_NAMES: Final[dict[Effect, re.Pattern[str]]] = {
    "send": re.compile(
        r"send|e?mail|message|msg|sms|dm|reply|respond|forward|share|invite|notify|upload|submit"
    ),
    "publish": re.compile(r"publish|post|tweet|toot|comment|deploy|release|push|announce|broadcast|merge"),
    "pay": re.compile(
        r"pay|payment|transfer|buy|purchase|order|checkout|donate|withdraw|refund|charge|trade|bid|book"
    ),
    "delete": re.compile(
        r"delete|del|remove|rm|drop|destroy|purge|erase|trash|wipe|unlink|clear|empty|cancel|revoke"
    ),
}
_READS: Final = re.compile(
    r"get|list|read|search|find|fetch|count|show|describe|query|view|lookup|check|watch|browse|download|"
    r"preview|draft|summarize|look|inspect|explain|analyze|calculate|compute|convert|translate|validate|compare|"
    r"estimate|resolve|has|is"
)
# Also after one of those words they say what is done: `get_and_delete`.
_CERTAIN: Final = re.compile(r"send|reply|forward|publish|pay|buy|purchase|delete|remove|destroy|purge|erase")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def guess_effects(name: str, *, is_read_only: bool, is_destructive: bool) -> frozenset[Effect]:
    """What a tool does, by its name and what its server says of it.

    A tool that neither its server nor its name says to read only may send what it is given.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    reads = is_read_only or bool(words and _READS.fullmatch(words[0]))
    if reads:
        words = [word for word in words if _CERTAIN.fullmatch(word)]
    found: set[Effect] = {effect for effect, names in _NAMES.items() if any(map(names.fullmatch, words))}
    if is_destructive and not is_read_only:
        found.add("delete")
    if not found and not reads:
        found.add("send")
    return frozenset(found)
