"""The channel for Telegram: a bot that asks the Bot API for its messages (long polling) and answers them.

Telegram hands an update over again until a later one is asked for, so how far was read is remembered only
after a message is on record. Going out, the Bot API has no idempotency keys: if the connection or the program
ends just as Telegram accepts a message, it is sent again.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import httpx

from nexus.channels import http
from nexus.channels.adapter import Capability, Delivery, DeliveryError, File, Inbox, Message
from nexus.channels.text import split_text

_URL: Final = "https://api.telegram.org"
_POLL_S: Final = 50
_TIMEOUT_S: Final = 30.0
_MAX_UNITS: Final = 4_096
"""UTF-16 code units, as Telegram counts a message."""
_MAX_FILE_BYTES: Final = 20_000_000
"""What the Bot API lets a bot download."""
_LONGEST_WAIT_S: Final = 45.0
_TOO_MANY, _FORBIDDEN, _BAD_REQUEST, _NOT_FOUND, _UNAUTHORIZED = 429, 403, 400, 404, 401
_SAID: Final = ("message", "edited_message")
_NAMES: Final = {"voice": "voice.ogg", "audio": "audio", "video": "video.mp4", "document": "file"}


class ApiError(DeliveryError):
    """What the Bot API answered, without the address that was asked: it holds the token."""

    def __init__(self, description: str, code: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(f"Telegram: {description}", final=code in {_BAD_REQUEST, _FORBIDDEN})
        self.code = code
        self.retry_after_s = retry_after_s


class Telegram:
    """A bot of Telegram."""

    capabilities: frozenset[Capability] = frozenset({"attachments", "edits", "threads", "typing"})

    def __init__(self, *, token: str, url: str = "", poll_s: int = _POLL_S) -> None:
        self._token = token
        self._url = (url or _URL).rstrip("/")
        self._poll_s = poll_s
        self._sent: dict[str, list[int]] = {}

    async def run(self, inbox: Inbox) -> None:
        """Hand over what people write until this is canceled."""
        async with http.make_client() as client:
            me = await self._call(client, "getMe")
            offset = int(await inbox.cursor() or 0)
            await inbox.connected()
            while True:
                asked = {"offset": offset, "timeout": self._poll_s, "allowed_updates": list(_SAID)}
                try:
                    updates = await self._call(client, "getUpdates", asked)
                except ApiError as error:
                    if error.code != _TOO_MANY:
                        raise
                    await asyncio.sleep(error.retry_after_s)
                    continue
                for update in updates:
                    await self._take_in(client, inbox, update, me)
                    offset = int(update["update_id"]) + 1
                    await inbox.keep_cursor(offset)

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a message, in pieces if it is long. A piece that was sent isn't sent again by a retry."""
        where = _parse_thread(delivery.thread)
        sent = self._sent.setdefault(delivery.key, [])
        calls = [*self._build_text_calls(delivery), *self._build_file_calls(delivery)]
        async with http.make_client() as client:
            if delivery.edits is not None and await self._edit_answer(client, where, delivery):
                return delivery.edits
            for method, values, files in calls[len(sent) :]:
                made = await self._call_patiently(client, method, where | values, files)
                sent.append(int(made["message_id"]))
        del self._sent[delivery.key]
        return f"{where['chat_id']}/{sent[0]}" if sent else None

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Show that the bot is typing. It ends by itself."""
        if not ended:
            async with http.make_client() as client:
                await self._call(client, "sendChatAction", {**_parse_thread(thread), "action": "typing"})

    async def remove(self, thread: str, sent: str) -> None:
        """Delete a message that was sent."""
        gone = {"chat_id": _parse_thread(thread)["chat_id"], "message_id": int(sent.rpartition("/")[2])}
        async with http.make_client() as client:
            await self._call(client, "deleteMessage", gone)

    async def me(self) -> dict[str, Any]:
        """The bot itself: its id, `username` and so on."""
        async with http.make_client() as client:
            return cast("dict[str, Any]", await self._call(client, "getMe"))

    async def newest_sender(self) -> tuple[str, str] | None:
        """The id and name of who wrote to the bot last. Nothing is marked as read."""
        async with http.make_client() as client:
            updates = await self._call(client, "getUpdates", {"offset": -1, "timeout": 0})
        for update in reversed(cast("list[Any]", updates)):
            sender = update.get("message", {}).get("from")
            if sender and not sender.get("is_bot"):
                return str(sender["id"]), _full_name(sender)
        return None

    async def _edit_answer(
        self, client: httpx.AsyncClient, where: dict[str, Any], delivery: Delivery
    ) -> bool:
        """Change an earlier answer. False: Telegram doesn't let it be changed any more."""
        id_ = int((delivery.edits or "").rpartition("/")[2])
        values = {"chat_id": where["chat_id"], "message_id": id_, "text": delivery.text}
        try:
            await self._call_patiently(client, "editMessageText", values, None)
        except ApiError as error:
            if not error.final:
                raise
            return "not modified" in error.message
        return True

    async def _take_in(self, client: httpx.AsyncClient, inbox: Inbox, update: Any, me: Any) -> None:
        said = next((update[kind] for kind in _SAID if kind in update), None)
        if not isinstance(said, dict):
            return  # What this version doesn't ask for.
        given = cast("dict[str, Any]", said)
        try:
            message = _parse_message(given, me, await self._download_all(client, given))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            await inbox.set_aside(
                {"id": f"update {update.get('update_id')}", "sender": ""},
                f"Not a valid Bot API message: {type(error).__name__} {error}",
            )
        else:
            if message is not None:
                await inbox.receive(message)

    async def _download_all(self, client: httpx.AsyncClient, said: dict[str, Any]) -> tuple[File, ...]:
        found: list[File] = []
        for name, media_type, file in _find_files(said):
            if int(file.get("file_size") or 0) > _MAX_FILE_BYTES:
                data, problem = b"", http.explain_limit(_MAX_FILE_BYTES)
            else:
                data, problem = await self._download(client, file)
            found.append(File(name=name, media_type=media_type, data=data, problem=problem))
        return tuple(found)

    async def _download(self, client: httpx.AsyncClient, file: dict[str, Any]) -> tuple[bytes, str]:
        """A file, or why there is none."""
        try:
            place = await self._call(client, "getFile", {"file_id": file["file_id"]})
        except ApiError as error:
            if error.final:
                return b"", error.message.removeprefix("Telegram: ")
            raise
        return await http.fetch(f"{self._url}/file/bot{self._token}/{place['file_path']}", _MAX_FILE_BYTES)

    def _build_text_calls(
        self, delivery: Delivery
    ) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
        for number, text in enumerate(split_text(delivery.text, _MAX_UNITS)):
            values: dict[str, Any] = {"text": text}
            answered = (delivery.reply_to or "").rpartition("/")[2]
            if number == 0 and answered.isdecimal():
                # It is sent all the same if what it answers was deleted.
                values["reply_parameters"] = {
                    "message_id": int(answered),
                    "allow_sending_without_reply": True,
                }
            yield "sendMessage", values, None

    def _build_file_calls(
        self, delivery: Delivery
    ) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
        for file in delivery.files:
            yield "sendDocument", {}, {"document": (file.name, file.data, file.media_type)}

    async def _call_patiently(
        self, client: httpx.AsyncClient, method: str, values: dict[str, Any], files: dict[str, Any] | None
    ) -> Any:
        """Call a method; where Telegram says to wait a little, wait and call it again."""
        while True:
            try:
                return await self._call(client, method, values, files)
            except ApiError as error:
                if error.code != _TOO_MANY or error.retry_after_s > _LONGEST_WAIT_S:
                    raise
                await asyncio.sleep(error.retry_after_s)

    async def _call(
        self,
        client: httpx.AsyncClient,
        method: str,
        values: dict[str, Any] | None = None,
        files: dict[str, Any] | None = None,
    ) -> Any:
        url = f"{self._url}/bot{self._token}/{method}"
        timeout = httpx.Timeout(_TIMEOUT_S, read=_TIMEOUT_S + (values or {}).get("timeout", 0))
        try:
            if files:
                form = {
                    name: v if isinstance(v, str) else json.dumps(v) for name, v in (values or {}).items()
                }
                answer = await client.post(url, data=form, files=files, timeout=timeout)
            else:
                answer = await client.post(url, json=values or {}, timeout=timeout)
        except httpx.HTTPError as error:
            raise ApiError(type(error).__name__) from None  # its own words hold the address
        try:
            told: Any = answer.json()
        except ValueError:
            raise ApiError(f"no JSON in the answer ({answer.status_code})", answer.status_code) from None
        if isinstance(told, dict) and cast("dict[str, Any]", told).get("ok") is True:
            return cast("dict[str, Any]", told)["result"]
        raise _build_error(told, answer.status_code)


def _parse_message(said: dict[str, Any], me: dict[str, Any], files: tuple[File, ...]) -> Message | None:
    sender = said.get("from")
    if sender is None or said.get("sender_chat") is not None:
        return None  # A channel or an anonymous admin: nobody who could have rights.
    chat = said["chat"]
    is_group = chat["type"] != "private"
    text = str(said.get("text") or said.get("caption") or "")
    if not text.strip() and not files:
        return None  # Somebody joined, a title changed, a sticker.
    topic = f"/{said['message_thread_id']}" if said.get("is_topic_message") else ""
    id_, edited_at = f"{chat['id']}/{said['message_id']}", said.get("edit_date")
    return Message(
        id=f"{id_}/{edited_at}" if edited_at else id_,
        edits=id_ if edited_at else None,
        thread=f"{chat['id']}{topic}",
        sender=str(sender["id"]),
        sender_name=_full_name(sender),
        title=chat.get("title"),
        text=re.sub(rf"^(\s*/\w+)@{re.escape(str(me['username']))}\b", r"\1", text, flags=re.IGNORECASE),
        is_group=is_group,
        is_addressed=not is_group or _is_addressed(said, text, me),
        is_automatic=bool(sender.get("is_bot")),
        files=files,
    )


def _parse_thread(thread: str) -> dict[str, Any]:
    chat, _, topic = thread.partition("/")
    return {"chat_id": chat} | ({"message_thread_id": int(topic)} if topic else {})


def _is_addressed(said: dict[str, Any], text: str, me: dict[str, Any]) -> bool:
    """Whether a message in a group names the bot, or replies to it."""
    answered: dict[str, Any] = said.get("reply_to_message") or {}
    writer: dict[str, Any] = answered.get("from") or {}
    if writer.get("id") == me["id"]:
        return True
    return re.search(rf"@{re.escape(str(me['username']))}\b", text, re.IGNORECASE) is not None


def _find_files(said: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if said.get("photo"):
        # The same picture in several sizes, the largest last.
        yield "photo.jpg", "image/jpeg", said["photo"][-1]
    for kind, default in _NAMES.items():
        if said.get(kind):
            file = said[kind]
            media_type = str(file.get("mime_type") or "application/octet-stream")
            yield str(file.get("file_name") or default), media_type, file


def _full_name(sender: dict[str, Any]) -> str:
    parts = [str(sender.get("first_name") or ""), str(sender.get("last_name") or "")]
    return " ".join(filter(None, parts)) or str(sender.get("username") or sender["id"])


def _build_error(told: Any, status: int) -> ApiError:
    given = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    code = int(given.get("error_code") or status)
    parameters: dict[str, Any] = given.get("parameters") or {}
    if code in {_UNAUTHORIZED, _NOT_FOUND}:
        return ApiError("the bot's token is wrong", code)
    return ApiError(
        str(given.get("description") or f"error {code}"), code, float(parameters.get("retry_after") or 0)
    )
