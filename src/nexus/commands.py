"""The commands that people type instead of a message: one list and one parser for every place to write."""

from dataclasses import dataclass, replace
from typing import Final, Literal

Place = Literal["terminal", "dashboard", "message"]
"""Where it is typed. `message`: in the API, `nexus run`, the client and every channel."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command."""

    name: str
    arguments: str = ""
    about: str
    listing: str = ""
    """What it does in messages, if it only lists there."""
    places: frozenset[Place] = frozenset({"terminal", "dashboard", "message"})
    is_for_guests: bool = False
    """Whether people with access other than the owner may use it."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS: Final = (
    Command(name="new", about="start a new session", is_for_guests=True),
    Command(name="stop", about="stop the answer", is_for_guests=True),
    Command(
        name="sessions", arguments="[NAME]", about="list sessions, or continue one", listing="list sessions"
    ),
    Command(
        name="model",
        arguments="[NAME]",
        about="show the models, or use one from now on",
        listing="list models",
    ),
    Command(
        name="attach",
        arguments="FILE",
        about="add an image, PDF or text file to your next message",
        places=frozenset({"terminal", "dashboard"}),
    ),
    Command(
        name="edit",
        arguments="[TEXT]",
        about="change your last message and send it again",
        places=frozenset({"terminal"}),
    ),
    Command(name="retry", about="answer your last message again", places=frozenset({"terminal"})),
    Command(
        name="correct",
        arguments="[NUMBER TEXT]",
        about="correct the fact that the answer used, or one that /memory listed",
        places=frozenset({"terminal"}),
    ),
    Command(name="memory", arguments="[WORDS]", about="search the memory, by default for your last message"),
    Command(name="remind", arguments="WORDS", about="set a reminder, such as: in two hours call Anna"),
    Command(name="reminders", about="list reminders"),
    Command(name="cost", about="show the cost of this session"),
    Command(name="trace", about="show the trace of your last message"),
    Command(name="help", about="show this help", is_for_guests=True),
    Command(name="quit", about="quit (or Ctrl-D)", places=frozenset({"terminal"})),
)
_BY_NAME: Final = {f"/{each.name}": each for each in COMMANDS} | {"/exit": COMMANDS[-1]}


def parse(text: str, place: Place = "message") -> tuple[Command, str] | None:
    """The command that a text is, with its arguments; None for a message.

    Words after a command that takes none make it a message: `/stop the music`. So does a name, because it may
    be another bot's: adapters remove their own from `/new@my_bot`.
    """
    words = text.split(maxsplit=1)
    if not words or not words[0].startswith("/"):
        return None
    found = _BY_NAME.get(words[0].lower())
    if found is None or place not in found.places or (len(words) > 1 and not found.arguments):
        return None
    return found, words[1].strip() if len(words) > 1 else ""


def list_for(place: Place, *, is_owner: bool = True) -> list[Command]:
    """The commands that a person can use in a place."""
    return [
        replace(each, arguments="", about=each.listing) if each.listing and place == "message" else each
        for each in COMMANDS
        if place in each.places and (is_owner or each.is_for_guests)
    ]
