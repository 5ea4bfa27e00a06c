"""The channel for Matrix: an account on a homeserver, in the rooms that it was invited to.

The homeserver hands events over again from a token on, so the token is remembered only after what came before
it is on record; an event that comes again has the same id. Going out, a message has a transaction id: the
homeserver takes it once, however often it is sent by the same device.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import quote

import aiohttp
import nio  # pyright: ignore[reportMissingTypeStubs] - it ships none

from nexus.channels import http, rendering
from nexus.channels.adapter import Capability, Delivery, DeliveryError, File, Inbox, Message, MessageError
from nexus.channels.matrix import parsing
from nexus.channels.matrix.parsing import Room
from nexus.channels.splitting import pieces

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
        for number, content in enumerate(_texts(delivery)):
            if number == 0 and delivery.edits is not None:
                whole = _edit(content, delivery.edits)
            else:
                whole = content | _related(delivery.reply_to if number == 0 else None, root)
            sent = await self._send(client, room_id, whole, f"{delivery.key}.{number}")
            first = first or sent
        for number, file in enumerate(delivery.files):
            content = await self._uploaded(client, file)
            sent = await self._send(
                client, room_id, content | _related(None, root), f"{delivery.key}.f{number}"
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
        told = await self._synced(client, since=since, full_state=True)
        if since is None:
            # What was said before the channel first connected is not answered.
            for joined in told.rooms.join.values():
                joined.timeline.events.clear()
                joined.timeline.limited = False
        await inbox.connected()
        while True:
            for room_id, joined in told.rooms.join.items():
                await self._take_in_room(client, inbox, room_id, joined, since)
            waiting |= dict(_invitations(told, str(client.user_id)))
            waiting = await self._answer_invitations(client, inbox, waiting)
            since = str(told.next_batch)
            await inbox.keep_cursor({"since": since, "invites": waiting})
            told = await self._synced(client, since=since)

    async def _synced(self, client: nio.AsyncClient, *, since: str | None, full_state: bool = False) -> Any:
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
            events = await self._missed(client, room_id, joined.timeline.prev_batch, since) + events
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
        room = _room(client, room_id, str(event.get("sender")))
        try:
            is_own = event.get("sender") == client.user_id
            files = () if is_own else await self._files(parsing.content_of(event))
            message = parsing.message(event, room, str(client.user_id), files)
        except MessageError as error:
            reason = f"Not a valid Matrix message: {error}"
            await inbox.set_aside({"id": event.get("event_id"), "sender": event.get("sender")}, reason)
        else:
            if message is not None:
                await inbox.receive(message)

    async def _missed(
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
        room = _room(client, room_id, sender)
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

    async def _files(self, content: dict[str, Any]) -> tuple[File, ...]:
        if not parsing.has_file(content):
            return ()
        name, media_type = parsing.file_name(content), parsing.media_type(content)
        url = content.get("url")
        if not isinstance(url, str) or not url.startswith("mxc://"):
            raise MessageError("The file has no address")
        data, problem = await self._downloaded(url.removeprefix("mxc://"))
        return (File(name=name, media_type=media_type, data=data, problem=problem),)

    async def _downloaded(self, place: str) -> tuple[bytes, str]:
        """A file, or why there is none."""
        server, _, media_id = place.partition("/")
        path = f"{self._url}/_matrix/client/v1/media/download/{quote(server, '')}/{quote(media_id, '')}"
        headers = {"authorization": f"Bearer {self._client.access_token if self._client else ''}"}
        return await http.fetched(path, _MAX_FILE_BYTES, headers, follow_redirects=True)

    async def _uploaded(self, client: nio.AsyncClient, file: File) -> dict[str, Any]:
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
        marked = content | {parsing.AUTOMATIC: True}
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


def _texts(delivery: Delivery) -> Iterator[dict[str, Any]]:
    for text in pieces(delivery.text, _MAX_UNITS):
        # Mentions nobody, whatever names are in the text.
        content: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        html = {"format": "org.matrix.custom.html", "formatted_body": rendering.html(text)}
        fits = len(json.dumps(content | html).encode()) <= _MAX_EVENT_BYTES
        yield content | html if fits else content


def _edit(content: dict[str, Any], event_id: str) -> dict[str, Any]:
    """A message that takes the place of another, also for clients that don't know that."""
    older = content | {"body": f"* {content['body']}"}
    related = {"rel_type": "m.replace", "event_id": event_id}
    return older | {"m.new_content": content, "m.relates_to": related}


def _related(reply_to: str | None, root: str) -> dict[str, Any]:
    related: dict[str, Any] = {"m.in_reply_to": {"event_id": reply_to}} if reply_to else {}
    if root:
        related |= {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        related.setdefault("m.in_reply_to", {"event_id": root})
    return {"m.relates_to": related} if related else {}


def _invitations(told: Any, own_id: str) -> Iterator[tuple[str, str]]:
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


def _room(client: nio.AsyncClient, room_id: str, sender: str) -> Room:
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
