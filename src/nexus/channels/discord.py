"""The channel for Discord: a bot that is connected to the gateway.

The gateway hands a message over once, so how far each conversation was read is remembered after a message is
on record, and in each new session what was said since is fetched. Going out, a message has a nonce: Discord
takes it once within a few minutes, however often it is sent.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final, cast

import aiohttp
import discord
from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from nexus.channels import http
from nexus.channels.adapter import Capability, Delivery, DeliveryError, File, Inbox, Message
from nexus.channels.text import split_text

_HOSTS: Final = (".discordapp.com", ".discordapp.net", ".discord.com")
"""Where Discord keeps files."""
_MAX_FILE_BYTES: Final = 25_000_000
_MAX_UNITS: Final = 2_000
_MAX_NONCE: Final = 25
_MOST_MISSED: Final = 10_000
"""How many messages of one conversation are fetched after a long absence."""
_SAID: Final = frozenset({discord.MessageType.default, discord.MessageType.reply})
"""Others tell that somebody joined, that a message was pinned, and so on."""
_SETTLE_S: Final = 2.0
"""How long the list of servers may pause while it comes in."""
_BAD_REQUEST, _TOO_LARGE = 400, 413


class Discord:
    """A bot of Discord."""

    capabilities: frozenset[Capability] = frozenset({"attachments", "edits", "markdown", "threads", "typing"})

    def __init__(self, *, token: str, url: str = "", settle_s: float = _SETTLE_S) -> None:
        self._token = token
        self._url = url
        self._settle_s = settle_s
        self._client: _Client | None = None
        self._sent: dict[str, list[int]] = {}
        if url:
            # The library has one address for all its bots.
            Route.BASE = f"{url.rstrip('/')}/api/v10"
            DiscordWebSocket.DEFAULT_GATEWAY = URL(f"{url.rstrip('/')}/gateway".replace("http", "ws", 1))

    async def run(self, inbox: Inbox) -> None:
        """Hand over what people write until this is canceled."""
        client = _Client(self._settle_s)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._log_in(client)
            self._client = client
            reader = _Reader(client, inbox, self._url)
            tasks = [asyncio.create_task(client.connect()), asyncio.create_task(reader.read())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            _raise_why(tasks)
        finally:
            self._client = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message, in pieces if it is long. A piece that was sent isn't sent again by a retry."""
        if self._client is None:
            raise DeliveryError("Discord: not connected")
        channel = self._client.get_partial_messageable(int(delivery.thread))
        if delivery.edits is not None and await _edit_answer(channel, delivery):
            return delivery.edits
        sent = self._sent.setdefault(delivery.key, [])
        for number, values in enumerate(_split_delivery(delivery)):
            if number < len(sent):
                continue
            nonce = hashlib.sha256(f"{delivery.key}.{number}".encode()).hexdigest()[:_MAX_NONCE]
            try:
                made = await channel.send(nonce=nonce, **values)
            except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
                raise _delivery_error(error) from error
            sent.append(made.id)
        del self._sent[delivery.key]
        return f"{delivery.thread}/{sent[0]}" if sent else None

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Show that the bot is typing. It ends by itself."""
        if self._client is not None and not ended:
            await self._client.get_partial_messageable(int(thread)).typing()

    async def remove(self, thread: str, sent: str) -> None:
        """Delete a message that was sent."""
        if self._client is not None:
            channel = self._client.get_partial_messageable(int(thread))
            await channel.get_partial_message(int(sent.rpartition("/")[2])).delete()

    async def check(self) -> tuple[str, str, str]:
        """The bot's name, and the id and name of who it belongs to. Logs in, and sends nothing."""
        client = _Client(self._settle_s)
        try:
            await self._log_in(client)
            about = await client.application_info()
            owner = about.team.owner if about.team is not None and about.team.owner else about.owner
            return str(client.user), str(owner.id), owner.name
        finally:
            await client.close()

    async def _log_in(self, client: discord.Client) -> None:
        try:
            await client.login(self._token)
        except discord.LoginFailure as error:
            raise ConnectionError("Discord: the bot's token is wrong") from error
        except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
            raise ConnectionError(f"Discord: {error or type(error).__name__}") from error


class _Client(discord.Client):
    """The library's client, with a queue of what it receives. None in it begins a new session."""

    def __init__(self, settle_s: float) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True),
            # Mentions nobody, whatever names are in a text.
            allowed_mentions=discord.AllowedMentions.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=settle_s,
            max_messages=None,
        )
        self.received: asyncio.Queue[discord.Message | None] = asyncio.Queue()
        self.is_complete = asyncio.Event()
        """Whether the servers of the session are known."""

    async def on_connect(self) -> None:
        self.is_complete.clear()
        self.received.put_nowait(None)

    async def on_ready(self) -> None:
        self.is_complete.set()

    async def on_message(self, message: discord.Message) -> None:
        self.received.put_nowait(message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        # Discord tells it the same way when it added a preview.
        if payload.message.edited_at is not None:
            self.received.put_nowait(payload.message)


class _Reader:
    """Hands over what a client receives, one message after the other."""

    def __init__(self, client: _Client, inbox: Inbox, url: str) -> None:
        self._client = client
        self._inbox = inbox
        self._url = url
        self._since = 0
        self._seen: dict[str, int] = {}
        self._direct: set[str] = set()

    async def read(self) -> None:
        kept = cast("dict[str, Any]", await self._inbox.cursor() or {})
        self._seen = {id_: int(last) for id_, last in kept.get("seen", {}).items()}
        self._direct = set(kept.get("direct", ()))
        # What was said before the channel first connected is not answered.
        self._since = int(kept.get("since") or discord.utils.time_snowflake(datetime.now(UTC)))
        while True:
            received = await self._client.received.get()
            if received is not None:
                await self._take_in(received, is_direct=isinstance(received.channel, discord.DMChannel))
                continue
            await self._client.is_complete.wait()
            await self._catch_up()
            await self._keep_cursor()
            await self._inbox.connected()

    async def _catch_up(self) -> None:
        for guild in self._client.guilds:
            joined = guild.me.joined_at if guild.me else None  # pyright: ignore[reportUnnecessaryComparison]
            since = max(self._since, discord.utils.time_snowflake(joined) if joined else 0)
            for channel in [*guild.text_channels, *guild.voice_channels, *guild.threads]:
                after = self._seen.get(str(channel.id), since)
                if (channel.last_message_id or 0) > after:
                    await self._catch_up_with(channel, after, is_direct=False)
        for id_ in sorted(self._direct):
            channel = self._client.get_partial_messageable(int(id_))
            await self._catch_up_with(channel, self._seen.get(id_, self._since), is_direct=True)

    async def _catch_up_with(self, channel: discord.abc.Messageable, after: int, *, is_direct: bool) -> None:
        missed = channel.history(limit=_MOST_MISSED, after=discord.Object(after), oldest_first=True)
        try:
            async for message in missed:
                await self._take_in(message, is_direct=is_direct)
        except (discord.Forbidden, discord.NotFound):
            return  # The bot may see that there is a channel, and not what was said in it.
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # What the library can't read must not keep the channel from ever connecting again.
            id_ = str(getattr(channel, "id", ""))
            reason = f"Messages that Discord handed over can't be read: {type(error).__name__} {error}"
            await self._inbox.set_aside({"id": f"{id_}/after {self._seen.get(id_, after)}"}, reason)
            self._seen[id_] = discord.utils.time_snowflake(datetime.now(UTC))

    async def _take_in(self, said: discord.Message, *, is_direct: bool) -> None:
        if said.author.id == self._me.id or said.type not in _SAID:
            return
        id_ = str(said.channel.id)
        files = tuple([await self._load_file(each) for each in said.attachments])
        message = _build_message(said, self._me, files, is_direct=is_direct)
        if said.edited_at is not None and said.id <= self._seen.get(id_, self._since):
            # Otherwise it was edited before it was first seen.
            at = int(1000 * said.edited_at.timestamp())
            message = replace(message, id=f"{message.id}/{at}", edits=message.id)
        if message.text.strip() or files:
            await self._inbox.receive(message)
        self._seen[id_] = max(said.id, self._seen.get(id_, 0))
        if is_direct:
            self._direct.add(id_)
        await self._keep_cursor()

    async def _keep_cursor(self) -> None:
        seen = {id_: str(last) for id_, last in self._seen.items()}
        told = {"since": str(self._since), "seen": seen, "direct": sorted(self._direct)}
        await self._inbox.keep_cursor(told)

    async def _load_file(self, attached: discord.Attachment) -> File:
        data = b""
        if attached.size > _MAX_FILE_BYTES:
            problem = http.explain_limit(_MAX_FILE_BYTES)
        elif not http.is_at(attached.url, self._url, _HOSTS):
            problem = "it isn't kept at Discord"
        else:
            data, problem = await http.fetch(attached.url, _MAX_FILE_BYTES)
        media_type = attached.content_type or "application/octet-stream"
        return File(name=attached.filename, media_type=media_type, data=data, problem=problem)

    @property
    def _me(self) -> discord.ClientUser:
        me = self._client.user
        if me is None:
            raise ConnectionError("Discord: not connected")
        return me


def _build_message(
    said: discord.Message, me: discord.ClientUser, files: tuple[File, ...], *, is_direct: bool
) -> Message:
    return Message(
        id=f"{said.channel.id}/{said.id}",
        thread=str(said.channel.id),
        sender=str(said.author.id),
        sender_name=said.author.display_name,
        title=None if is_direct else _room_title(said),
        text=said.clean_content,
        is_group=not is_direct,
        is_addressed=is_direct or _is_addressed(said, me),
        is_automatic=said.author.bot or said.webhook_id is not None,
        files=files,
    )


def _is_addressed(said: discord.Message, me: discord.ClientUser) -> bool:
    """Whether a message in a group mentions the bot or its role, or replies to it."""
    if any(each.id == me.id for each in said.mentions):
        return True
    if any(role.tags is not None and role.tags.bot_id == me.id for role in said.role_mentions):
        return True
    answered = said.reference.resolved if said.reference is not None else None
    return isinstance(answered, discord.Message) and answered.author.id == me.id


def _room_title(said: discord.Message) -> str | None:
    name = getattr(said.channel, "name", None)
    if not isinstance(name, str):
        return None
    return f"#{name} ({said.guild.name})" if said.guild is not None else f"#{name}"


def _split_delivery(delivery: Delivery) -> Iterator[dict[str, Any]]:
    """What is sent for a delivery, one after the other."""
    for number, text in enumerate(split_text(delivery.text, _MAX_UNITS)):
        values: dict[str, Any] = {"content": text}
        answered = (delivery.reply_to or "").rpartition("/")[2]
        if number == 0 and answered.isdecimal():
            # It is sent all the same if what it answers was deleted.
            values["reference"] = discord.MessageReference(
                message_id=int(answered), channel_id=int(delivery.thread), fail_if_not_exists=False
            )
        yield values
    for file in delivery.files:
        yield {"file": discord.File(BytesIO(file.data), filename=file.name)}


async def _edit_answer(channel: discord.PartialMessageable, delivery: Delivery) -> bool:
    """Change an earlier answer. False: it is gone."""
    id_ = int((delivery.edits or "").rpartition("/")[2])
    try:
        await channel.get_partial_message(id_).edit(content=delivery.text)
    except (discord.NotFound, discord.Forbidden):
        return False
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        raise _delivery_error(error) from error
    return True


def _delivery_error(error: Exception) -> DeliveryError:
    final = isinstance(error, discord.HTTPException) and (
        isinstance(error, discord.Forbidden | discord.NotFound) or error.status in {_BAD_REQUEST, _TOO_LARGE}
    )
    return DeliveryError(f"Discord: {error or type(error).__name__}", final=final)


def _raise_why(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        error = task.exception() if task.done() else None
        if isinstance(error, discord.PrivilegedIntentsRequired):
            raise ConnectionError(
                "Discord: turn on Message Content Intent for the bot in the Developer Portal"
            ) from error
        if isinstance(error, discord.DiscordException | aiohttp.ClientError):
            raise ConnectionError(f"Discord: {error or type(error).__name__}") from error
        if error is not None:
            raise error
