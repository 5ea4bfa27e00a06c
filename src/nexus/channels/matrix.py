"""The channel for Matrix: an account on a homeserver, in the rooms that it was invited to.

The homeserver hands events over again from a token on, so the token is remembered only after what came before
it is on record; an event that comes again has the same id. Going out, a message has a transaction id: the
homeserver takes it once, however often it is sent by the same device.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import quote

import aiohttp
import nio  # pyright: ignore[reportMissingTypeStubs] - it ships none

from nexus.channels import http
from nexus.channels.adapter import Capability, Delivery, DeliveryError, File, Inbox, Message, MessageError
from nexus.channels.text import render_html, split_text

_POLL_MS: Final = 30_000
_TIMEOUT_S: Final = 30.0
_TYPING_MS: Final = 15_000
_DEVICE: Final = "NEXUS"
_TIMELINE: Final = 100
_MOST_MISSED: Final = 10_000
"""How many events of one room are fetched after a long absence."""
_MAX_FILE_BYTES: Final = 25_000_000
_MAX_UNITS: Final = 8_000
_MAX_EVENT_BYTES: Final = 60_000
"""An event may have 65,536 bytes; the homeserver adds to what it is given."""
_FINAL: Final = frozenset({"M_FORBIDDEN", "M_TOO_LARGE", "M_NOT_FOUND", "M_BAD_JSON", "M_INVALID_PARAM"})
_ENCRYPTED: Final = "I can't read encrypted rooms. Write to me in a room without encryption."
AUTOMATIC: Final = "dev.nexus.automatic"
"""Marks what an agent wrote, so that two of them don't go on forever."""
_MEDIA: Final = frozenset({"m.image", "m.file", "m.audio", "m.video"})
_PRIVATE: Final = 2
"""Members of a room where nobody else reads along."""


class Matrix:
    """An account on a homeserver. With `user`, the secret is its password; without, an access token."""

    capabilities: frozenset[Capability] = frozenset({"attachments", "edits", "markdown", "threads", "typing"})

    def __init__(
        self, *, url: str, secret: str, user: str = "", poll_ms: int = _POLL_MS, timeline: int = _TIMELINE
    ) -> None:
        self._url = url.rstrip("/")
        self._secret = secret
        self._user = user
        self._poll_ms = poll_ms
        self._filter: dict[str, Any] = {
            "presence": {"types": []},
            "room": {"timeline": {"limit": timeline}, "ephemeral": {"types": []}},
        }
        self._client: nio.AsyncClient | None = None

    async def run(self, inbox: Inbox) -> None:
        """Hand over what people write until this is canceled."""
        async with self._logged_in() as client:
            self._client = client
            try:
                await self._follow(client, inbox)
            finally:
                self._client = None

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message, in pieces if it is long. What was sent isn't sent again by a retry."""
        client = self._client
        if client is None:
            raise DeliveryError("Matrix: not connected")
        room_id, _, root = delivery.thread.partition(" ")
        first: str | None = None
        for number, content in enumerate(_build_texts(delivery)):
            if number == 0 and delivery.edits is not None:
                whole = _build_edit(content, delivery.edits)
            else:
                whole = content | _build_relation(delivery.reply_to if number == 0 else None, root)
            sent = await self._send(client, room_id, whole, f"{delivery.key}.{number}")
            first = first or sent
        for number, file in enumerate(delivery.files):
            content = await self._upload(client, file)
            sent = await self._send(
                client, room_id, content | _build_relation(None, root), f"{delivery.key}.f{number}"
            )
            first = first or sent
        return delivery.edits or first

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Show that the agent is typing in a room, for a while or no longer."""
        if self._client is not None:
            room_id = thread.partition(" ")[0]
            await self._client.room_typing(room_id, typing_state=not ended, timeout=_TYPING_MS)

    async def remove(self, thread: str, sent: str) -> None:
        """Redact a message that was sent."""
        if self._client is not None:
            await self._client.room_redact(thread.partition(" ")[0], sent)

    async def own_id(self) -> str:
        """The account's own id. Logs in, and sends nothing."""
        async with self._logged_in() as client:
            return str(client.user_id)

    async def _follow(self, client: nio.AsyncClient, inbox: Inbox) -> None:
        kept = cast("dict[str, Any]", await inbox.cursor() or {})
        since = cast("str | None", kept.get("since"))
        waiting = dict(cast("dict[str, str]", kept.get("invites", {})))
        # Who is in a room is not remembered from run to run, so all of it is asked for once.
        told = await self._sync(client, since=since, full_state=True)
        if since is None:
            # What was said before the channel first connected is not answered.
            for joined in told.rooms.join.values():
                joined.timeline.events.clear()
                joined.timeline.limited = False
        await inbox.connected()
        while True:
            for room_id, joined in told.rooms.join.items():
                await self._take_in_room(client, inbox, room_id, joined, since)
            waiting |= dict(_find_invitations(told, str(client.user_id)))
            waiting = await self._answer_invitations(client, inbox, waiting)
            since = str(told.next_batch)
            await inbox.keep_cursor({"since": since, "invites": waiting})
            told = await self._sync(client, since=since)

    async def _sync(self, client: nio.AsyncClient, *, since: str | None, full_state: bool = False) -> Any:
        try:
            told = await client.sync(
                timeout=0 if full_state else self._poll_ms,
                sync_filter=self._filter,
                since=since,
                full_state=full_state,
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{self._url}: {error or type(error).__name__}") from error
        if isinstance(told, nio.SyncError):
            raise ConnectionError(f"{self._url}: {told.message}")
        return told

    async def _take_in_room(
        self, client: nio.AsyncClient, inbox: Inbox, room_id: str, joined: Any, since: str | None
    ) -> None:
        events: list[dict[str, Any]] = [each.source for each in joined.timeline.events]
        if joined.timeline.limited:
            events = await self._load_missed(client, room_id, joined.timeline.prev_batch, since) + events
        own_id = str(client.user_id)
        invited = next((n for n in range(len(events) - 1, -1, -1) if _invites(events[n], own_id)), None)
        if invited is not None:
            # What was said before the invitation was not said to the agent.
            inviter = events[invited]
            events = events[invited + 1 :]
            await self._greet(client, inbox, room_id, inviter, events)
        for event in events:
            await self._take_in(client, inbox, room_id, event)

    async def _take_in(
        self, client: nio.AsyncClient, inbox: Inbox, room_id: str, event: dict[str, Any]
    ) -> None:
        if event.get("type") == "m.room.encrypted" and event.get("sender") != client.user_id:
            await inbox.set_aside(
                {"id": event.get("event_id"), "sender": event.get("sender")}, "The message is encrypted"
            )
            notice: dict[str, Any] = {"msgtype": "m.notice", "body": _ENCRYPTED}
            await self._send(client, room_id, notice, f"encrypted.{room_id}")
            return
        if event.get("type") != "m.room.message":
            return
        room = _describe_room(client, room_id, str(event.get("sender")))
        try:
            is_own = event.get("sender") == client.user_id
            files = () if is_own else await self._load_files(read_content(event))
            message = parse_message(event, room, str(client.user_id), files)
        except MessageError as error:
            reason = f"Not a valid Matrix message: {error}"
            await inbox.set_aside({"id": event.get("event_id"), "sender": event.get("sender")}, reason)
        else:
            if message is not None:
                await inbox.receive(message)

    async def _load_missed(
        self, client: nio.AsyncClient, room_id: str, before: str | None, since: str | None
    ) -> list[dict[str, Any]]:
        """What was said between the last time and what the homeserver hands over by itself."""
        found: list[dict[str, Any]] = []
        while before and len(found) < _MOST_MISSED:
            told = await client.room_messages(room_id, start=before, end=since, limit=1_000)
            if isinstance(told, nio.RoomMessagesError):
                raise ConnectionError(f"{self._url}: {told.message}")
            part: list[dict[str, Any]] = [each.source for each in cast("list[Any]", told.chunk)]
            found += part
            if any(_invites(event, str(client.user_id)) for event in part):
                break
            before = told.end if part else None
        return found[::-1]

    async def _answer_invitations(
        self, client: nio.AsyncClient, inbox: Inbox, waiting: dict[str, str]
    ) -> dict[str, str]:
        """Join rooms of people who were let in, and private rooms of strangers: there they get a code.

        Other rooms wait until whoever invited the agent was let in.
        """
        left: dict[str, str] = {}
        for room_id, told in waiting.items():
            sender, _, kind = told.partition(" ")
            if kind == "direct" or await inbox.knows(sender):
                joined = await client.join(room_id)
                if isinstance(joined, nio.JoinError) and joined.status_code not in _FINAL:
                    left[room_id] = told
            else:
                left[room_id] = told
        return left

    async def _greet(
        self,
        client: nio.AsyncClient,
        inbox: Inbox,
        room_id: str,
        inviter: dict[str, Any],
        said_since: list[dict[str, Any]],
    ) -> None:
        """A stranger who invited the agent and wrote nothing yet is told how to be let in."""
        sender = str(inviter["sender"])
        wrote = any(e.get("sender") == sender and e.get("type") == "m.room.message" for e in said_since)
        if wrote or await inbox.knows(sender):
            return
        room = _describe_room(client, room_id, sender)
        message = Message(
            id=str(inviter["event_id"]),
            thread=room_id,
            sender=sender,
            sender_name=room.sender_name,
            text="(invited the agent to this room)",
            title=room.title,
            is_group=room.is_group,
        )
        await inbox.receive(message)

    async def _load_files(self, content: dict[str, Any]) -> tuple[File, ...]:
        if not has_file(content):
            return ()
        name, media_type = read_file_name(content), read_media_type(content)
        url = content.get("url")
        if not isinstance(url, str) or not url.startswith("mxc://"):
            raise MessageError("The file has no address")
        data, problem = await self._download(url.removeprefix("mxc://"))
        return (File(name=name, media_type=media_type, data=data, problem=problem),)

    async def _download(self, place: str) -> tuple[bytes, str]:
        """A file, or why there is none."""
        server, _, media_id = place.partition("/")
        path = f"{self._url}/_matrix/client/v1/media/download/{quote(server, '')}/{quote(media_id, '')}"
        headers = {"authorization": f"Bearer {self._client.access_token if self._client else ''}"}
        return await http.fetch(path, _MAX_FILE_BYTES, headers, follow_redirects=True)

    async def _upload(self, client: nio.AsyncClient, file: File) -> dict[str, Any]:
        told, _ = await client.upload(
            BytesIO(file.data), content_type=file.media_type, filename=file.name, filesize=len(file.data)
        )
        if isinstance(told, nio.UploadError):
            raise DeliveryError(f"Matrix: {file.name}: {told.message}", final=told.status_code in _FINAL)
        kind = "m.image" if file.media_type.startswith("image/") else "m.file"
        info = {"mimetype": file.media_type, "size": len(file.data)}
        return {
            "msgtype": kind,
            "body": file.name,
            "filename": file.name,
            "url": told.content_uri,
            "info": info,
        }

    async def _send(
        self, client: nio.AsyncClient, room_id: str, content: dict[str, Any], transaction: str
    ) -> str:
        marked = content | {AUTOMATIC: True}
        try:
            sent = await client.room_send(room_id, "m.room.message", marked, tx_id=transaction)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise DeliveryError(f"Matrix: {error or type(error).__name__}") from error
        if isinstance(sent, nio.RoomSendError):
            raise DeliveryError(f"Matrix: {sent.message}", final=sent.status_code in _FINAL)
        return str(sent.event_id)

    @asynccontextmanager
    async def _logged_in(self) -> AsyncGenerator[nio.AsyncClient]:
        config = nio.AsyncClientConfig(
            max_limit_exceeded=5, max_timeouts=1, request_timeout=_TIMEOUT_S, encryption_enabled=False
        )
        client = nio.AsyncClient(self._url, self._user, device_id=_DEVICE, config=config)
        try:
            await self._log_in(client)
            yield client
        finally:
            await client.close()

    async def _log_in(self, client: nio.AsyncClient) -> None:
        try:
            if self._user:
                # The same device each time: transaction ids are the device's own.
                told = await client.login(self._secret, device_name="Nexus")
                problem = told if isinstance(told, nio.LoginError) else None
            else:
                client.access_token = self._secret
                told = await client.whoami()
                problem = told if isinstance(told, nio.WhoamiError) else None
                if isinstance(told, nio.WhoamiResponse):
                    client.restore_login(told.user_id, told.device_id or "", self._secret)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(f"{self._url}: {error or type(error).__name__}") from error
        if problem is not None:
            raise ConnectionError(f"{self._url}: {problem.message}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """What of a room matters for a message in it."""

    id: str
    members: int
    is_open: bool
    """Whether anybody can join it or read it without being invited."""
    title: str | None
    own_name: str
    """What the agent is called in it."""
    sender_name: str | None

    @property
    def is_group(self) -> bool:
        return self.is_open or self.members > _PRIVATE


def parse_message(event: dict[str, Any], room: Room, own_id: str, files: tuple[File, ...]) -> Message | None:
    """A message; None for what is none, or was written by the agent itself."""
    content = read_content(event)
    sender = _read_field(event, "sender")
    edits: str | None = None
    if _read_relation(content) == "m.replace":
        edits = _read_field(_as_object(content.get("m.relates_to")), "event_id")
        content = _as_object(content.get("m.new_content"))
    if sender == own_id or not content:
        return None  # Its own words, or something deleted.
    text = read_text(content)
    if not text.strip() and not files:
        return None
    return Message(
        id=_read_field(event, "event_id"),
        thread=_read_thread(content, room.id),
        sender=sender,
        sender_name=room.sender_name,
        text=text,
        edits=edits,
        title=room.title,
        is_group=room.is_group,
        is_addressed=not room.is_group or _is_addressed(content, room, own_id),
        is_automatic=content.get("msgtype") == "m.notice" or content.get(AUTOMATIC) is True,
        files=files,
    )


def read_text(content: dict[str, Any]) -> str:
    """The words of a message. Those of a file are its caption; without one, its body is its name."""
    body = content.get("body")
    if not isinstance(body, str):
        raise MessageError("The message has no body")
    if has_file(content) and content.get("filename") in (None, body):
        return ""
    return _without_quote(body) if "m.in_reply_to" in _as_object(content.get("m.relates_to")) else body


def read_content(event: dict[str, Any]) -> dict[str, Any]:
    """The content of an event; nothing, if it is no object."""
    return _as_object(event.get("content"))


def has_file(content: dict[str, Any]) -> bool:
    """Whether a file comes with a message."""
    kind = content.get("msgtype")
    return isinstance(kind, str) and kind in _MEDIA


def read_file_name(content: dict[str, Any]) -> str:
    """The name of the file that comes with a message."""
    name = content.get("filename") or content.get("body")
    return name if isinstance(name, str) else "file"


def read_media_type(content: dict[str, Any]) -> str:
    """What a file is, as its sender says."""
    given = _as_object(content.get("info")).get("mimetype")
    return given if isinstance(given, str) else "application/octet-stream"


def _read_thread(content: dict[str, Any], room_id: str) -> str:
    root = _as_object(content.get("m.relates_to")).get("event_id")
    return f"{room_id} {root}" if _read_relation(content) == "m.thread" and isinstance(root, str) else room_id


def _read_relation(content: dict[str, Any]) -> Any:
    return _as_object(content.get("m.relates_to")).get("rel_type")


def _is_addressed(content: dict[str, Any], room: Room, own_id: str) -> bool:
    """Whether a message names the agent. Clients name whoever they reply to as well."""
    named = _as_object(content.get("m.mentions")).get("user_ids")
    if isinstance(named, list) and own_id in cast("list[Any]", named):
        return True
    body = read_text(content)
    return any(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", body) for name in (own_id, room.own_name) if name
    )


def _without_quote(body: str) -> str:
    """A reply without the lines that older clients quote above it."""
    lines = body.split("\n")
    end = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[end:]).strip("\n") or body


def _read_field(event: dict[str, Any], name: str) -> str:
    found = event.get(name)
    if not isinstance(found, str):
        raise MessageError(f"The event has no {name}")
    return found


def _as_object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _build_texts(delivery: Delivery) -> Iterator[dict[str, Any]]:
    for text in split_text(delivery.text, _MAX_UNITS):
        # Mentions nobody, whatever names are in the text.
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        html = {"format": "org.matrix.custom.html", "formatted_body": render_html(text)}
        fits = len(json.dumps(content | html).encode()) <= _MAX_EVENT_BYTES
        yield content | html if fits else content


def _build_edit(content: dict[str, Any], event_id: str) -> dict[str, Any]:
    """A message that takes the place of another, also for clients that don't know that."""
    older = content | {"body": f"* {content['body']}"}
    related = {"rel_type": "m.replace", "event_id": event_id}
    return older | {"m.new_content": content, "m.relates_to": related}


def _build_relation(reply_to: str | None, root: str) -> dict[str, Any]:
    related: dict[str, Any] = {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}
    if root:
        related |= {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        related.setdefault("m.in_reply_to", {"event_id": root})
    return {"m.relates_to": related} if related else {}


def _find_invitations(told: Any, own_id: str) -> Iterator[tuple[str, str]]:
    for room_id, invited in told.rooms.invite.items():
        for event in invited.invite_state:
            if _is_membership(event) and event.state_key == own_id:
                is_direct = event.content.get("is_direct") is True
                yield str(room_id), f"{event.sender} {'direct' if is_direct else 'group'}"


def _is_membership(event: Any) -> bool:
    return isinstance(event, nio.InviteMemberEvent)


def _invites(event: dict[str, Any], own_id: str) -> bool:
    content: Any = event.get("content")
    return (
        event.get("type") == "m.room.member"
        and event.get("state_key") == own_id
        and isinstance(content, dict)
        and cast("dict[str, Any]", content).get("membership") == "invite"
    )


def _describe_room(client: nio.AsyncClient, room_id: str, sender: str) -> Room:
    room: Any = client.rooms.get(room_id)
    if room is None:
        # Nothing is known of it: as careful as in a group.
        return Room(id=room_id, members=3, is_open=True, title=None, own_name="", sender_name=None)
    return Room(
        id=room_id,
        members=int(room.member_count),
        is_open=room.join_rule == "public" or room.history_visibility == "world_readable",
        title=cast("str | None", room.named_room_name()),
        own_name=str(room.user_name(client.user_id) or ""),
        sender_name=cast("str | None", room.user_name(sender)),
    )
