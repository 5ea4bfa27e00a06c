"""The gate: every write passes it on its way into the memory, whichever door it came through.

What it decides follows from who writes: which operations they may use, how sure of anything they can be,
and that no secret is kept. A run may bring rules of its own, such as the memory writer's about what is
news and on whose word it is written; those are asked first, and can only narrow.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from nexus.errors import UsageError
from nexus.memory.writing import ActorKind, Provenance

_KEYWORD = r"(?:password|passphrase|passwort|passcode|pin|api[ _-]?key)"
_IS = r"(?:\bis\b|\bist\b|=|:)\s*"
# With a digit or a sign in it, or in quotes: not a word, and not a date.
_NO_WORD = r"(?!\d{4}-\d\d-\d\d)(?:(?=\S*[\d!@#$%^&*_+])\S{4,}|[\"'`\u201c]\S{3,})"
_SHAPES = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"\b(?:sk|pk|rk)[-_](?:ant|live|test|proj)?[-_]?[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.",
        rf"(?i)\b(?:{_KEYWORD}|secret|token)\b[^.\n]{{0,40}}?{_IS}{_NO_WORD}",
        # A plain word counts where it is all that follows: "is required for it" is no password.
        rf"(?i)\b{_KEYWORD}\b\s*{_IS}\S{{4,}}\s*$",
    )
)


# A number that begins with a plus is a phone's.
_CARD = re.compile(r"(?<![\d+])(?:\d[ -]?){12,18}\d(?!\d)")
TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "fact": ("fact", "extracted_fact"),
    "relationship": ("fact", "extracted_fact"),
    "person-fact": ("value",),
    "entity": ("name", "summary"),
    "describe": ("summary", "name"),
    "episode": ("summary", "title"),
    "mental-model": ("content", "name", "question"),
}
"""What each operation says in words. By the first one it is told who said it."""
MERGES: Final = frozenset({"merge", "unmerge", "reject"})
# Who sends under which address decides about rights: that is for people to say.
ADDRESSES: Final = frozenset({"contact"})
# What several memories say together is for reflection: the memory writer and programs elsewhere state facts.
CONCLUSIONS: Final = frozenset({"mental-model"})
HEARSAY: Final = 0.6
"""How sure one can be of what nobody said, or somebody other than the owner says about others."""

_STATEMENTS: Final = frozenset({"fact", "relationship"})
_HAVE_CONFIDENCE: Final = frozenset({*_STATEMENTS, "person-fact", "contact", "causal-link"})


def is_confidential(text: str) -> bool:
    """Whether a text holds a key, a password, a token or the number of a card."""
    return any(shape.search(text) for shape in _SHAPES) or any(map(_is_card, _CARD.findall(text)))


def _is_card(number: str) -> bool:
    """Whether the last digit checks the others, as it does on every card (ISO/IEC 7812)."""
    digits = [int(each) for each in number if each.isdigit()][::-1]
    return sum(digits[::2] + [sum(divmod(2 * each, 10)) for each in digits[1::2]]) % 10 == 0


# Two letters, two check digits, and up to thirty letters and digits, often in groups of four.
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}\b")
_CODE = re.compile(
    r"(?i)\b(?:(?:door|gate|entry|alarm|lock|safe|access|key ?box|garage|building)[ -]?"
    r"(?:code|combination|number)"
    r"|(?:t[uü]r|eingangs|alarm|schloss|safe|tresor|garagen|zugangs)-?code|c[oó]digo (?:de la|del|da|do|de)"
    r"|code (?:d'entr[ée]e|de la porte|d'acc[èe]s|du portail)|combination (?:of|to|for))\b[^.\n]{0,40}?\d{3,}"
)


def is_code(text: str) -> bool:
    """Whether a text holds a door code, the combination of a safe or an account number (IBAN)."""
    return _CODE.search(text) is not None or any(map(_is_iban, _IBAN.findall(text)))


def _is_iban(number: str) -> bool:
    """Whether the check digits fit (ISO 7064, modulo 97)."""
    plain = number.replace(" ", "")
    digits = "".join(str(int(each, 36)) for each in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(digits) % 97 == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What one kind of actor may write."""

    ceiling: float
    """How sure it can be of anything."""
    refused: frozenset[str] = frozenset()
    """Operations that are not for it."""
    is_quoted: bool = True
    """Whether what it states is kept as its own word, whatever it says about who said it."""


STANDINGS: Final[Mapping[ActorKind, Standing]] = {
    "owner": Standing(ceiling=1.0, is_quoted=False),
    # Its own rules say on whose word each statement is written, and cap it.
    "writer": Standing(ceiling=1.0, refused=ADDRESSES | CONCLUSIONS, is_quoted=False),
    "automation": Standing(ceiling=0.8, refused=ADDRESSES | MERGES),
    "client": Standing(ceiling=HEARSAY, refused=ADDRESSES | MERGES | CONCLUSIONS),
    "unknown": Standing(ceiling=HEARSAY, refused=ADDRESSES | MERGES | CONCLUSIONS),
}


class Rules(Protocol):
    """What one run may write beyond what its kind may. It hears what became of it."""

    async def admit(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check a write and give its arguments as they are to be written; a `UsageError` refuses it."""
        ...

    def note_refusal(self, operation: str, reason: str) -> None:
        """Note that the gate refused something."""
        ...

    def note_write(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Note that something was written."""
        ...

    def note_recall(self, answer: Mapping[str, Any]) -> None:
        """Note that the run looked something up."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """The gate, for what one actor writes."""

    provenance: Provenance
    rules: Rules | None = None
    keeps_codes: bool = True
    """Whether door codes and account numbers may be kept. Passwords, keys and card numbers never are."""

    async def admit(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check a write and give its arguments as they are to be written; a `UsageError` refuses it."""
        given = {str(name).replace("-", "_"): value for name, value in arguments.items()}
        try:
            self._check(operation, given)
            if self.rules is not None:
                given = await self.rules.admit(operation, given)
        except UsageError as error:
            if self.rules is not None:
                self.rules.note_refusal(operation, error.message)
            raise
        return self._limit_claims(operation, given)

    def note_write(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Note that something was written."""
        if self.rules is not None:
            self.rules.note_write(operation, arguments)

    @property
    def _standing(self) -> Standing:
        return STANDINGS[self.provenance.kind]

    def _check(self, operation: str, given: Mapping[str, Any]) -> None:
        if operation in self._standing.refused:
            hint = "Leave it: likely duplicates are shown to the owner as merge candidates."
            if operation in ADDRESSES:
                hint = "Use `alias` for an address that was mentioned."
            elif operation in CONCLUSIONS:
                hint = "Write facts: what they say together is concluded from them later."
            raise UsageError(f"`{operation}` is not for {self.provenance.actor}", hint=hint)
        relation = str(given.get("relation", "")).strip() if operation == "causal-link" else ""
        if relation == "distinct" and self.provenance.kind != "owner":
            raise UsageError(
                f"{self.provenance.actor} can't say that two facts are both true",
                hint="Only the owner can: `nexus memory keep-both`.",
            )
        texts = list(_list_texts(operation, given))
        if not self.keeps_codes and any(map(is_code, texts)):
            raise UsageError(
                "This holds a code or an account number, which are not to be kept",
                hint="Leave it out. The owner can allow them: `keep_codes` in [memory] in config.toml.",
            )
        if any(map(is_confidential, texts)):
            raise UsageError(
                "Nexus doesn't store passwords, keys, tokens or card numbers in its memory",
                hint="Keep it in a password manager, and add where to find it: "
                "`The Wi-Fi password is in the blue folder`.",
            )

    def _limit_claims(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        standing = self._standing
        if operation in _HAVE_CONFIDENCE and standing.ceiling < 1.0:
            given = {**given, "confidence": _least(given.get("confidence"), standing.ceiling)}
        if operation in _STATEMENTS and standing.is_quoted:
            claimed = given.get("source_type")
            given = {
                **given,
                # That somebody said it of themselves is for the ledgers to tell.
                "source_type": "mentioned" if claimed == "self_disclosed" else claimed,
                "metadata": {"speaker": self.provenance.actor, "speaker_id": None},
            }
        return {name: value for name, value in given.items() if value is not None}


def _list_texts(operation: str, given: Mapping[str, Any]) -> Iterator[str]:
    for name in (*TEXTS.get(operation, ()), "alias", "metadata"):
        yield from _list_strings(given.get(name))


def _list_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from _list_strings(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _list_strings(each)


def _least(given: object, ceiling: float) -> object:
    """Return the smaller of the two; what is no number is left for the operation to refuse."""
    try:
        return min(float(cast("Any", given)), ceiling) if given is not None else ceiling
    except (TypeError, ValueError):
        return given
