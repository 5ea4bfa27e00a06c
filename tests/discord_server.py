"""A server that speaks Discord's gateway and REST API as their documentation describes them, for tests."""

import json
import time
import zlib
from contextlib import suppress
from typing import Any, Final

from aiohttp import WSMsgType, web

from threaded_server import ThreadedServer

TOKEN: Final = "MTA5.test.token"
BOT: Final = "500000000000000001"
HANA: Final = "700000000000000001"
DIRECT: Final = "71"
GUILD, GROUP = "900", "901"
_EPOCH_MS: Final = 1_420_070_400_000


class DiscordServer(ThreadedServer):
    """Channels keep what is said; the gateway sends each message once, and again to who resumes a session."""

    def __init__(self) -> None:
        self.said: dict[str, list[dict[str, Any]]] = {DIRECT: [], GROUP: []}
        self.sent: list[dict[str, Any]] = []
        """What the bot posted."""
        self.uploaded: list[tuple[str, bytes]] = []
        self.files: dict[str, bytes] = {}
        self.typing: list[str] = []
        self.asked: list[str] = []
        """Files that were asked for."""
        self.refusals: list[tuple[str, int, dict[str, Any]]] = []
        """Methods, and what is answered to the next call of each instead of the result."""
        self.identified = 0
        self.resumed = 0
        self.close_with = 0
        """A code with which the next session is refused."""
        self._nonces: dict[str, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._sockets: list[_Socket] = []
        self._next = 0
        super().__init__()
        self.url = self.origin

    def write(
        self, text: str = "", *, channel: str = DIRECT, user: str = HANA, quietly: bool = False, **more: Any
    ) -> str:
        """Somebody writes; returns the id. Quietly: the gateway doesn't tell it, as to nobody who listens."""
        return self._call(self._write(text, channel, user, quietly, more))

    def edit(self, id_: str, text: str, *, channel: str = DIRECT, **more: Any) -> None:
        """Somebody changes what they wrote."""
        [said] = [each for each in self.said[channel] if each["id"] == id_]
        at = {"edited_timestamp": "2026-11-16T12:30:00.000000+00:00"}
        self.send_event("MESSAGE_UPDATE", {**said, "content": text, **at, **more})

    def send_event(self, name: str, data: Any) -> None:
        """Send any event to the bot."""
        self._call(self._dispatch(name, data))

    def drop(self) -> None:
        """Cut every connection, as a network does."""
        self._call(self.hang_up())

    def texts(self) -> list[str]:
        return [each["content"] for each in self.sent if each.get("content")]

    async def _write(self, text: str, channel: str, user: str, quietly: bool, more: dict[str, Any]) -> str:
        message = self._message(
            text, channel, {"id": user, "username": "hana", "global_name": "Hana Ito"}, more
        )
        self.said.setdefault(channel, []).append(message)
        if not quietly:
            await self._dispatch("MESSAGE_CREATE", message)
        return str(message["id"])

    def _message(
        self, text: str, channel: str, author: dict[str, Any], more: dict[str, Any]
    ) -> dict[str, Any]:
        place = {"guild_id": GUILD} if channel != DIRECT else {}
        return {
            "id": self._id(),
            "type": 0,
            "channel_id": channel,
            "author": {"discriminator": "0", "avatar": None, **author},
            "content": text,
            "timestamp": "2026-11-16T12:00:00.000000+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            **place,
            **more,
        }

    def _id(self) -> str:
        self._next += 1
        return str((int(time.time() * 1000) - _EPOCH_MS << 22) + self._next)

    async def _dispatch(self, name: str, data: Any) -> None:
        event = {"op": 0, "t": name, "d": data, "s": len(self._events) + 1}
        self._events.append(event)
        for socket in list(self._sockets):
            with suppress(ConnectionError):  # Whoever listened was killed just now.
                await socket.send(event)

    async def hang_up(self) -> None:
        for socket in list(self._sockets):
            await socket.close(4000)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/gateway", self._gateway)
        router.add_get("/files/{name}", self._file)
        router.add_get("/api/v10/users/@me", self._answering(self._me))
        router.add_get("/api/v10/oauth2/applications/@me", self._answering(self._application))
        router.add_get("/api/v10/channels/{id}/messages", self._answering(self._history))
        router.add_post("/api/v10/channels/{id}/messages", self._answering(self._post))
        router.add_patch("/api/v10/channels/{id}/messages/{message}", self._answering(self._patch))
        router.add_post("/api/v10/channels/{id}/typing", self._answering(self._typing))

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        socket = _Socket(response, request.query["compress"])
        await socket.send({"op": 10, "d": {"heartbeat_interval": 41_250}})
        try:
            async for told in response:
                if told.type == WSMsgType.TEXT:
                    await self._told(socket, json.loads(told.data))
        finally:
            if socket in self._sockets:
                self._sockets.remove(socket)
        return response

    async def _told(self, socket: "_Socket", told: dict[str, Any]) -> None:
        if told["op"] == 1:
            await socket.send({"op": 11})
        elif told["op"] == 2:
            await self._identify(socket, told["d"])
        elif told["op"] == 6:
            self.resumed += 1
            for event in self._events[told["d"]["seq"] :]:
                await socket.send(event)
            await socket.send({"op": 0, "t": "RESUMED", "d": {}, "s": len(self._events)})
            self._sockets.append(socket)

    async def _identify(self, socket: "_Socket", given: dict[str, Any]) -> None:
        self.identified += 1
        if given["token"] != TOKEN or self.close_with:
            await socket.close(self.close_with or 4004)
            return
        assert given["intents"] == 1 | 1 << 9 | 1 << 12 | 1 << 15
        ready = {"v": 10, "user": _bot(), "guilds": [{"id": GUILD, "unavailable": True}]}
        ready |= {"session_id": "s1", "resume_gateway_url": f"{self.url.replace('http', 'ws')}/gateway"}
        ready |= {"application": {"id": "501", "flags": 0}}
        for name, data in (("READY", ready), ("GUILD_CREATE", self._guild())):
            event = {"op": 0, "t": name, "d": data, "s": len(self._events) + 1}
            self._events.append(event)
            await socket.send(event)
        self._sockets.append(socket)

    def _guild(self) -> dict[str, Any]:
        channels: list[dict[str, Any]] = []
        for number, (id_, said) in enumerate(self.said.items()):
            if id_ != DIRECT:
                last = said[-1]["id"] if said else None
                channels.append(
                    {"id": id_, "type": 0, "name": "trip", "position": number, "last_message_id": last}
                    | {"permission_overwrites": [], "nsfw": False, "parent_id": None}
                )
        member: dict[str, Any] = {
            "user": _bot(),
            "roles": [],
            "joined_at": "2020-01-01T00:00:00+00:00",
            "deaf": False,
        }
        role = {"id": GUILD, "name": "@everyone", "color": 0, "colors": {"primary_color": 0}, "hoist": False}
        role |= {"position": 0, "permissions": "68608", "managed": False, "mentionable": False, "flags": 0}
        own = role | {"id": "902", "name": "Agent", "managed": True, "tags": {"bot_id": BOT}}
        return {
            "id": GUILD,
            "name": "Friends",
            "owner_id": HANA,
            "roles": [role, own],
            "channels": channels,
            "threads": [],
            "members": [member | {"mute": False, "flags": 0}],
            "member_count": 2,
            "large": False,
            "emojis": [],
            "stickers": [],
            "features": [],
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "nsfw_level": 0,
            "premium_tier": 0,
            "system_channel_flags": 0,
            "preferred_locale": "en-US",
            "afk_timeout": 300,
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    async def _file(self, request: web.Request) -> web.Response:
        self.asked.append(request.match_info["name"])
        data = self.files.get(request.match_info["name"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    def _answering(self, work: Any) -> Any:
        async def answer(request: web.Request) -> web.Response:
            if request.headers.get("authorization") != f"Bot {TOKEN}":
                return _json({"message": "401: Unauthorized", "code": 0}, 401)
            for number, (method, status, told) in enumerate(self.refusals):
                if method == work.__name__.lstrip("_"):
                    del self.refusals[number]
                    return _json(told, status)
            found = await work(request)
            return web.Response(status=204) if found is None else _json(found)

        return answer

    async def _me(self, request: web.Request) -> Any:
        return _bot()

    async def _application(self, request: web.Request) -> Any:
        return {
            "id": "501",
            "name": "Agent",
            "icon": None,
            "description": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "verify_key": "k",
            "team": None,
            "flags": 0,
            "owner": {"id": HANA, "username": "hana", "discriminator": "0", "avatar": None},
        }

    async def _history(self, request: web.Request) -> Any:
        after, limit = int(request.query.get("after", 0)), int(request.query["limit"])
        found = [each for each in self.said[request.match_info["id"]] if int(each["id"]) > after]
        return found[:limit][::-1]  # The newest first.

    async def _post(self, request: web.Request) -> Any:
        files: list[tuple[str, bytes]] = []
        if request.content_type == "application/json":
            values = await request.json()
        else:
            form = await request.post()
            values = json.loads(str(form["payload_json"]))
            for name, part in form.items():
                if name.startswith("files"):
                    assert isinstance(part, web.FileField)
                    files.append((part.filename, part.file.read()))
        nonce = str(values["nonce"])
        assert values["enforce_nonce"] is True
        assert len(nonce) <= 25
        if nonce not in self._nonces:
            assert len(values.get("content") or "") <= 2000
            self.uploaded += files
            channel = request.match_info["id"]
            made = self._message(str(values.get("content") or ""), channel, _bot(), {})
            self.sent.append({**values, "channel": channel, "id": made["id"]})
            self._nonces[nonce] = made
        return self._nonces[nonce]

    async def _patch(self, request: web.Request) -> Any:
        values, id_ = await request.json(), request.match_info["message"]
        for each in self.sent:
            if each["id"] == id_:
                each["content"] = values["content"]
                return self._message(values["content"], request.match_info["id"], _bot(), {"id": id_})
        raise web.HTTPNotFound(
            text='{"message": "Unknown Message", "code": 10008}', content_type="application/json"
        )

    async def _typing(self, request: web.Request) -> Any:
        self.typing.append(request.match_info["id"])


class _Socket:
    """One connection; it is compressed as one stream, with zstd where the client has a package for it."""

    def __init__(self, response: web.WebSocketResponse, compression: str) -> None:
        self._response = response
        self._stream: Any
        if compression == "zstd-stream":
            import zstandard  # the client has it

            self._stream = zstandard.ZstdCompressor().compressobj()
            self._flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        else:
            assert compression == "zlib-stream"
            self._stream = zlib.compressobj()
            self._flush = zlib.Z_SYNC_FLUSH

    async def send(self, told: dict[str, Any]) -> None:
        data = self._stream.compress(json.dumps(told).encode()) + self._stream.flush(self._flush)
        await self._response.send_bytes(data)

    async def close(self, code: int) -> None:
        await self._response.close(code=code)


def _json(told: Any, status: int = 200) -> web.Response:
    # Without a charset, as Discord does.
    return web.Response(
        body=json.dumps(told).encode(), status=status, headers={"content-type": "application/json"}
    )


def _bot() -> dict[str, Any]:
    return {"id": BOT, "username": "nexus", "discriminator": "0", "avatar": None, "bot": True}
