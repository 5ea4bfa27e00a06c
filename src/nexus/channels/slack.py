"""The channel for Slack: an app in socket mode, so that nothing has to be reachable from outside.

An event is acknowledged after its message is on record. Slack sends one that wasn't acknowledged again, but
only for some minutes, so how far each conversation was read is remembered too, and whenever the socket is
connected anew, what was said since is fetched. Going out, Slack has no idempotency keys: if the connection or
the program ends just as Slack accepts a message, it is sent again.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from nexus.channels import http
from nexus.channels.adapter import Capability, Delivery, DeliveryError, File, Inbox, Message, MessageError
from nexus.channels.text import split_text

_URL: Final = "https://slack.com/api/"
_HOSTS: Final = (".slack.com", ".slack-edge.com")
"""Where Slack keeps files. The token is sent nowhere else."""
_MAX_FILE_BYTES: Final = 25_000_000
_MAX_UNITS: Final = 12_000
_PAGE: Final = 200
_MOST_MISSED: Final = 10_000
"""How many messages of one conversation are fetched after a long absence."""
_MOST_THREADS: Final = 200
"""How many threads are looked into for what was said meanwhile: those that were written in last."""
_EYES: Final = "eyes"
_UNCHANGEABLE: Final = frozenset({"cant_update_message", "edit_window_closed", "message_not_found"})
_KINDS: Final = "im,mpim,private_channel,public_channel"
_RETRIES: Final = 2
_FINAL: Final = frozenset(
    {
        "channel_not_found",
        "file_upload_size_restricted",
        "is_archived",
        "markdown_text_too_long",
        "msg_too_long",
        "no_text",
        "not_in_channel",
        "restricted_action",
        "user_not_found",
    }
)


_SAID: Final = frozenset({None, "file_share", "me_message", "thread_broadcast", "bot_message"})
"""Subtypes of what somebody said. Others tell that somebody joined, that a message was deleted, and so on."""
_CHANGED: Final = "message_changed"
_ESCAPED: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bot:
    """The agent in its workspace."""

    user_id: str
    bot_id: str
    name: str


def is_said(event: dict[str, Any], bot: Bot) -> bool:
    """Whether an event is something that somebody else said."""
    subtype = event.get("subtype")
    if (subtype is not None and not isinstance(subtype, str)) or subtype not in _SAID:
        return False
    return event.get("user") != bot.user_id and (not bot.bot_id or event.get("bot_id") != bot.bot_id)


def as_edited(event: dict[str, Any]) -> dict[str, Any]:
    """Of an event that says that a message was edited, the message as it is now; of others, themselves.

    Slack tells it the same way when it added a preview. Then nobody edited the message.
    """
    found: Any = event.get("message")
    changed = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if event.get("subtype") != _CHANGED or not _read_edit_time(changed):
        return event
    place = {name: event[name] for name in ("channel", "channel_type") if name in event}
    return {**changed, **place, "is_edit": True}


def is_own_join(event: dict[str, Any], bot: Bot) -> bool:
    """Whether an event says that the agent was let into a channel."""
    return event.get("subtype") in ("channel_join", "group_join") and event.get("user") == bot.user_id


def read_ts(event: dict[str, Any]) -> str:
    """When something was said, which is also its name in its conversation."""
    found = event.get("ts")
    if not isinstance(found, str) or not _TS.fullmatch(found):
        raise MessageError("The event has no ts")
    return found


def read_channel(event: dict[str, Any]) -> str:
    """Where something was said."""
    return _read_field(event, "channel")


def is_group(event: dict[str, Any]) -> bool:
    """Whether others read along. What isn't known to be a direct message is read by others."""
    kind = event.get("channel_type")
    return kind != "im" if kind is not None else not read_channel(event).startswith("D")


def read_thread(event: dict[str, Any]) -> str:
    """The conversation of an event: a channel, or a thread in it."""
    root = event.get("thread_ts")
    channel = read_channel(event)
    return f"{channel} {root}" if isinstance(root, str) and _TS.fullmatch(root) else channel


def read_sender(event: dict[str, Any]) -> str:
    """Who said something: a member of the workspace, or another app's bot."""
    return _read_field(event, "user" if event.get("user") else "bot_id")


def parse_message(
    event: dict[str, Any], bot: Bot, files: tuple[File, ...], *, name: str | None, title: str | None
) -> Message | None:
    """A message; None if there is nothing in it."""
    said = event.get("text", "")
    if not isinstance(said, str):
        raise MessageError("The text of the event is no text")
    text = unescape(said, bot)
    if not text.strip() and not files:
        return None
    group = is_group(event)
    id_ = f"{read_channel(event)}/{read_ts(event)}"
    is_edit = event.get("is_edit") is True
    return Message(
        id=f"{id_}/{_read_edit_time(event)}" if is_edit else id_,
        edits=id_ if is_edit else None,
        thread=read_thread(event),
        sender=read_sender(event),
        sender_name=name,
        text=text,
        title=title if group else None,
        is_group=group,
        is_addressed=not group or _is_addressed(event, said, bot),
        is_automatic=bool(event.get("bot_id")),
        files=files,
    )


def read_files(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The files of an event, as Slack describes them."""
    files: Any = event.get("files") or []
    if not isinstance(files, list):
        raise MessageError("The files of the event are no list")
    for file in cast("list[Any]", files):
        if not isinstance(file, dict):
            raise MessageError("A file of the event is no object")
        yield cast("dict[str, Any]", file)


def unescape(text: str, bot: Bot) -> str:
    """A text as it was typed: Slack escapes three characters, and writes names and links in brackets."""

    def unescape_one(found: re.Match[str]) -> str:
        sign, target, label = found.groups()
        if sign == "@" and target == bot.user_id:
            return f"@{bot.name}"
        if sign:
            return f"{'@' if sign == '!' else sign}{label or target}"
        address = target.removeprefix("mailto:").removeprefix("tel:")
        return address if not label or label in target else f"{label} ({target})"

    text = _ESCAPED.sub(unescape_one, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def disarm_mentions(text: str) -> str:
    """A text that calls nobody, whatever is in it: `<!channel>` would call everybody."""
    return re.sub(r"<(?=[!@#])", "<\N{ZERO WIDTH SPACE}", text)


def _is_addressed(event: dict[str, Any], said: str, bot: Bot) -> bool:
    """Whether a message in a group names the agent, or continues a thread that the agent began."""
    named = f"<@{bot.user_id}>" in said or f"<@{bot.user_id}|" in said
    return named or event.get("parent_user_id") == bot.user_id


def _read_edit_time(event: dict[str, Any]) -> str:
    """When a message was edited; empty where it wasn't."""
    edited: Any = event.get("edited")
    found = cast("dict[str, Any]", edited).get("ts") if isinstance(edited, dict) else None
    return found if isinstance(found, str) and _TS.fullmatch(found) else ""


def _read_field(event: dict[str, Any], name: str) -> str:
    found = event.get(name)
    if not isinstance(found, str) or not found:
        raise MessageError(f"The event has no {name}")
    return found


class Slack:
    """An app of Slack, with the token of its bot and its app-level token."""

    capabilities: frozenset[Capability] = frozenset(
        {"attachments", "edits", "markdown", "reactions", "threads"}
    )

    def __init__(self, *, token: str, app_token: str, url: str = "") -> None:
        self._token = token
        self._app_token = app_token
        self._url = url.rstrip("/") + "/" if url else _URL
        self._sent: dict[str, list[str]] = {}

    async def run(self, inbox: Inbox) -> None:
        """Hand over what people write until this is canceled."""
        client = self._make_client()
        bot = await self.check()
        connection = _Connection(self, client, bot, inbox)
        app: Any = AsyncApp(client=client, process_before_response=True, ignoring_self_events_enabled=False)
        app.event(re.compile(".*"))(connection.take_in_event)
        handler = _InOrder(app, self._app_token, connection)
        try:
            await handler.connect_async()
            await connection.failure
        finally:
            await handler.close_async()

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message, in pieces if it is long. A piece that was sent isn't sent again by a retry."""
        channel, _, root = delivery.thread.partition(" ")
        where: dict[str, Any] = {"channel": channel} | ({"thread_ts": root} if root else {})
        client = self._make_client()
        texts = split_text(disarm_mentions(delivery.text), _MAX_UNITS)
        if delivery.edits is not None and await self._edit_answer(client, delivery.edits, texts[0]):
            return delivery.edits
        sent = self._sent.setdefault(delivery.key, [])
        for text in texts[len(sent) :]:
            made = await _call_to_deliver(
                client.chat_postMessage(**where, markdown_text=text, unfurl_links=False)
            )
            sent.append(f"{channel}/{made['ts']}")
        for file in delivery.files[len(sent) - len(texts) :]:
            await _call_to_deliver(client.files_upload_v2(**where, file=file.data, filename=file.name))
            sent.append("")
        del self._sent[delivery.key]
        return next(filter(None, sent), None)

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Mark a message with eyes while it is worked on."""
        client, (channel, _, ts) = self._make_client(), message_id.partition("/")
        react = client.reactions_remove if ended else client.reactions_add
        await _call_to_deliver(react(channel=channel, timestamp=ts, name=_EYES))

    async def remove(self, thread: str, sent: str) -> None:
        """Delete a message that was sent."""
        channel, _, ts = sent.partition("/")
        await _call_to_deliver(self._make_client().chat_delete(channel=channel, ts=ts))

    async def check(self) -> Bot:
        """The agent itself, if both tokens are right."""
        client = self._make_client()
        me = await _call(client.auth_test())
        # The library tries a wrong token again and again.
        await _call(client.apps_connections_open(app_token=self._app_token))
        return Bot(user_id=str(me["user_id"]), bot_id=str(me.get("bot_id") or ""), name=str(me["user"]))

    async def find_name(self, user_id: str) -> str | None:
        """What a member of the workspace is called; None if there is no such member."""
        try:
            told = await self._make_client().users_info(user=user_id)
        except SlackApiError:
            return None
        user = cast("dict[str, Any]", told["user"])
        return str(user.get("real_name") or user.get("name") or user_id)

    async def load_files(self, event: dict[str, Any]) -> tuple[File, ...]:
        """Fetch what is attached to a message."""
        return tuple([await self._load_file(told) for told in read_files(event)])

    async def _edit_answer(self, client: Any, id_: str, text: str) -> bool:
        """Change an earlier answer. False: Slack doesn't let it be changed any more."""
        channel, _, ts = id_.partition("/")
        try:
            await _call_to_deliver(client.chat_update(channel=channel, ts=ts, markdown_text=text))
        except DeliveryError as error:
            if error.message.removeprefix("Slack: ") not in _UNCHANGEABLE:
                raise
            return False
        return True

    async def _load_file(self, told: dict[str, Any]) -> File:
        name, media_type = told.get("name") or "file", told.get("mimetype") or "application/octet-stream"
        url, size = told.get("url_private_download") or told.get("url_private"), told.get("size")
        if not (isinstance(name, str) and isinstance(media_type, str)):
            raise MessageError("A file of the event has no name")
        data = b""
        if isinstance(size, int) and size > _MAX_FILE_BYTES:
            problem = http.explain_limit(_MAX_FILE_BYTES)
        elif not isinstance(url, str) or not http.is_at(url, self._url, _HOSTS):
            problem = "it isn't kept at Slack"
        else:
            headers = {"authorization": f"Bearer {self._token}"}
            data, problem = await http.fetch(url, _MAX_FILE_BYTES, headers)
        return File(name=name, media_type=media_type, data=data, problem=problem)

    def _make_client(self) -> Any:
        """The library's client. Its types say little: it takes and returns whatever Slack does."""
        retries = [AsyncRateLimitErrorRetryHandler(max_retry_count=_RETRIES)]
        return AsyncWebClient(self._token, base_url=self._url, retry_handlers=cast("Any", retries))


class _Connection:
    """What passes between a workspace and an inbox."""

    def __init__(self, slack: Slack, client: Any, bot: Bot, inbox: Inbox) -> None:
        self._slack = slack
        self._client = client
        self._bot = bot
        self._inbox = inbox
        self._names: dict[str, str | None] = {}
        self._titles: dict[str, str | None] = {}
        self._seen: dict[str, str] = {}
        self._since = ""
        self.order = asyncio.Lock()
        """Held while a message is taken in: they come one after the other."""
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Why the channel has to be started again."""

    async def begin_session(self) -> None:
        """Fetch what was said while no socket was open."""
        kept = cast("dict[str, Any]", await self._inbox.cursor() or {})
        self._seen = dict(kept.get("seen", {}))
        # What was said before the channel first connected is not answered.
        self._since = str(kept.get("since") or f"{time.time():.6f}")
        if kept:
            await self._catch_up()
        else:
            await self._keep_cursor()
        await self._inbox.connected()

    async def take_in_event(self, event: dict[str, Any]) -> None:
        """Take in what the socket brings. Its order is held by who calls this."""
        if event.get("type") not in ("message", "app_mention"):
            return
        try:
            await self._take_in(event)
        except Exception as error:
            self.fail(error)
            raise  # Not acknowledged: it comes again.

    def fail(self, error: BaseException) -> None:
        """End the channel: whoever keeps it starts it again."""
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _catch_up(self) -> None:
        async for told in self._load_pages(
            "users.conversations", "channels", types=_KINDS, exclude_archived=True
        ):
            id_ = str(told["id"])
            self._titles[id_] = cast("str | None", told.get("name"))
            more = {"channel": id_, "channel_type": "im" if told.get("is_im") else "channel"}
            await self._catch_up_with("conversations.history", id_, more, channel=id_)
        for place in [each for each in self._seen if " " in each]:
            channel, _, root = place.partition(" ")
            more = {"channel": channel}
            await self._catch_up_with("conversations.replies", place, more, channel=channel, ts=root)

    async def _catch_up_with(self, method: str, place: str, more: dict[str, Any], **values: Any) -> None:
        oldest = self._seen.get(place, self._since)
        found: list[dict[str, Any]] = []
        try:
            async for event in self._load_pages(method, "messages", oldest=oldest, **values):
                found.append({**event, **more})
                if len(found) >= _MOST_MISSED or is_own_join(event, self._bot):
                    break  # What was said before the agent was let in was not said to it.
        except SlackApiError as error:
            if _error_name(error) not in _FINAL | {"thread_not_found"}:
                raise
            self._seen.pop(place, None)
        for event in sorted(found, key=lambda each: str(each.get("ts"))):
            if str(event.get("ts")) > oldest:  # The first message of a thread comes along each time.
                await self._take_in(event)

    async def _load_pages(self, method: str, key: str, **values: Any) -> AsyncGenerator[dict[str, Any]]:
        cursor = ""
        while True:
            told = await self._client.api_call(
                method, params={**values, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            )
            for each in cast("list[dict[str, Any]]", told.get(key) or []):
                yield each
            cursor = str(cast("dict[str, Any]", told.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return

    async def _take_in(self, event: dict[str, Any]) -> None:
        event = as_edited(event)
        if not is_said(event, self._bot):
            return
        try:
            place, ts = read_thread(event), read_ts(event)
            sender = read_sender(event)
            title = await self._find_title(event) if is_group(event) else None
            files = await self._slack.load_files(event)
            message = parse_message(event, self._bot, files, name=await self._find_name(sender), title=title)
        except MessageError as error:
            body = {"id": f"{event.get('channel')}/{event.get('ts')}", "sender": event.get("user")}
            await self._inbox.set_aside(body, f"Not a valid Slack message: {error}")
            return
        if message is not None:
            await self._inbox.receive(message)
        self._seen[place] = max(ts, self._seen.pop(place, ""))
        await self._keep_cursor()

    async def _keep_cursor(self) -> None:
        threads = [place for place in self._seen if " " in place]
        for place in threads[:-_MOST_THREADS]:
            del self._seen[place]
        await self._inbox.keep_cursor({"since": self._since, "seen": dict(self._seen)})

    async def _find_name(self, sender: str) -> str | None:
        if sender not in self._names:
            self._names[sender] = await self._slack.find_name(sender)
        return self._names[sender]

    async def _find_title(self, event: dict[str, Any]) -> str | None:
        id_ = read_channel(event)
        if id_ not in self._titles:
            try:
                told = await self._client.conversations_info(channel=id_)
                found = cast("dict[str, Any]", told["channel"]).get("name")
            except SlackApiError:
                found = None
            self._titles[id_] = found if isinstance(found, str) else None
        return self._titles[id_]


class _InOrder(AsyncSocketModeHandler):
    """The library's handler, which would handle events at the same time."""

    def __init__(self, app: AsyncApp, app_token: str, connection: _Connection) -> None:
        super().__init__(app, app_token)
        self._connection = connection
        cast("Any", self.client).message_listeners.append(self._handle_hello)

    async def handle(self, client: Any, req: Any) -> None:
        async with self._connection.order:
            await super().handle(client, req)

    async def _handle_hello(self, client: Any, message: dict[str, Any], raw: str | None = None) -> None:
        """A new socket begins with a greeting, before any event."""
        if message.get("type") != "hello":
            return
        async with self._connection.order:
            try:
                await self._connection.begin_session()
            except Exception as error:  # Whatever it is: the channel is started again.
                self._connection.fail(_explain_error(error))


async def _call(call: Awaitable[Any]) -> dict[str, Any]:
    try:
        told = await call
    except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
        raise _explain_error(error) from error
    return cast("dict[str, Any]", told.data)


async def _call_to_deliver(call: Awaitable[Any]) -> dict[str, Any]:
    try:
        told = await call
    except SlackApiError as error:
        reason = _error_name(error)
        raise DeliveryError(f"Slack: {reason}", final=reason in _FINAL) from error
    except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
        raise DeliveryError(f"Slack: {type(error).__name__}") from error
    return cast("dict[str, Any]", told.data)


def _error_name(error: SlackApiError) -> str:
    """Slack's name for what went wrong."""
    return str(cast("Any", error).response.get("error"))


def _explain_error(error: BaseException) -> BaseException:
    """What Slack answered, in few words."""
    if isinstance(error, SlackApiError):
        needed = cast("Any", error).response.get("needed")
        scope = f" (the app needs the scope {needed})" if needed else ""
        return ConnectionError(f"Slack: {_error_name(error)}{scope}")
    if isinstance(error, SlackClientError | aiohttp.ClientError | TimeoutError):
        return ConnectionError(f"Slack: {type(error).__name__}")
    return error
