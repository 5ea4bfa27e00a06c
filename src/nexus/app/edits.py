"""A message that its sender changed on the channel."""

from typing import NamedTuple

import apsw

from nexus.channels import Message
from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.text import storable


class Edit(NamedTuple):
    """What a change means."""

    thread: str
    """Where the message was said first: a service may tell the room, and not the thread in it."""
    is_new: bool = True
    """Whether the words are others than before. Services also tell of previews that they added."""
    replaces: str | None = None
    """The run that answered the message before, if nothing was said since."""


async def read(ledgers: Ledgers, channel: str, message: Message) -> Edit | None:
    """What it means that a message edits another; None if it edits none, or nobody vouches for its sender."""
    if message.edits is None or not message.is_verified:
        return None
    thread, before, is_last = await ledgers.events.read(_before, channel=channel, message=message)
    if before is None:
        return Edit(thread)
    if before.external_id == storable(message.id):  # It comes again.
        return Edit(thread, replaces=before.metadata.get("replaces"))
    if _says_the_same(before.content, message):
        return Edit(thread, is_new=False)
    return Edit(thread, replaces=await ledgers.runtime.read(_run, event_id=before.id) if is_last else None)


def _before(
    connection: apsw.Connection, channel: str, message: Message
) -> tuple[str, events.Event | None, bool]:
    """The thread of a message, the message as it was until now, and whether nothing was said since."""
    edited = storable(message.edits or "")
    first = events.find_delivered(connection, channel=channel, external_id=edited)
    thread = message.thread
    if first is not None and first.thread_id is not None:
        thread = events.thread_name(connection, first.thread_id)[0] or thread
    again = events.find_delivered(connection, channel=channel, external_id=message.id)
    if again is not None:
        return thread, again, False
    last = events.find_last_heard(connection, channel=channel, thread=thread)
    # The second change of a message follows the first.
    if last is not None and edited in (last.external_id, last.metadata.get("edits")):
        return thread, last, last.sender == storable(message.sender)
    return thread, first, False


def _run(connection: apsw.Connection, event_id: str) -> str | None:
    request = requests.for_event(connection, event_id)
    if request is None:
        return None
    runs = executions.of_request(connection, request.id, request.session_label or "")
    return runs[0].id if runs else None


def _says_the_same(content: str, message: Message) -> bool:
    """Whether it has the words of a recorded one. What files say is recorded behind the words."""
    text = storable(message.text)
    return content.startswith(text) if message.files else content == text
