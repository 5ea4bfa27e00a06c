"""A server that speaks the Web API and socket mode of Slack as they are documented, for tests."""

import json
import time
from contextlib import suppress
from typing import Any, Final

from aiohttp import WSMsgType, web

from threaded_server import ThreadedServer

TOKEN: Final = "xoxb-test-token"
APP_TOKEN: Final = "xapp-test-token"
BOT: Final = "U0BOT"
HANA: Final = "U0HANA"
DIRECT: Final = "D0HANA"
GROUP: Final = "C0TRIP"


class SlackServer(ThreadedServer):
    """Conversations keep what is said; each event goes to the open socket until it is acknowledged."""

    def __init__(self) -> None:
        self.said: dict[str, list[dict[str, Any]]] = {DIRECT: [], GROUP: []}
        self.sent: list[dict[str, Any]] = []
        """What the app posted."""
        self.reactions: list[tuple[str, str, str]] = []
        self.reacted: list[tuple[str, str, str]] = []
        """Those that there ever were."""
        self.uploaded: list[tuple[str, bytes]] = []
        self.files: dict[str, bytes] = {}
        self.refusals: list[tuple[str, dict[str, Any]]] = []
        """Methods, and what is answered to the next call of each instead of the result."""
        self.asked: list[tuple[str, str | None]] = []
        """Paths that were asked for, with the authorization."""
        self.acknowledged: set[str] = set()
        self.connections = 0
        self._sockets: list[web.WebSocketResponse] = []
        self._waiting: dict[str, tuple[str, bytes]] = {}
        self._next = 0
        super().__init__()

    @property
    def url(self) -> str:
        return f"{self.origin}/api/"

    def write(
        self, text: str = "", *, channel: str = DIRECT, user: str = HANA, quietly: bool = False, **more: Any
    ) -> str:
        """Somebody writes; returns the ts. Quietly: no event is sent, as if no socket had been open."""
        return self._call(self._write(text, channel, user, quietly, more))

    def edit(self, ts: str, text: str, *, channel: str = DIRECT, **more: Any) -> None:
        """Somebody changes what they wrote."""
        [said] = [each for each in self.said[channel] if each["ts"] == ts]
        edited = {**said, "text": text, "edited": {"user": said["user"], "ts": self._ts()}, **more}
        self.send_event(
            {
                "type": "message",
                "subtype": "message_changed",
                "channel": channel,
                "channel_type": "im" if channel.startswith("D") else "channel",
                "ts": self._ts(),
                "message": edited,
                "previous_message": said,
            }
        )

    def send_event(self, event: dict[str, Any]) -> str:
        """Send any event to the app; returns the id of the envelope."""
        return self._call(self._push(event))

    def disconnect(self) -> None:
        """Ask the app to open another socket, as Slack does every few hours."""
        self._call(self._to_all({"type": "disconnect", "reason": "refresh_requested"}))

    def texts(self) -> list[str]:
        return [each["markdown_text"] for each in self.sent]

    async def _write(self, text: str, channel: str, user: str, quietly: bool, more: dict[str, Any]) -> str:
        event = {"type": "message", "text": text, "user": user, "ts": self._ts(), **more}
        self.said.setdefault(channel, []).append(event)
        kind = "im" if channel.startswith("D") else "channel"
        if not quietly:
            await self._push({**event, "channel": channel, "channel_type": kind})
        return str(event["ts"])

    async def _push(self, event: dict[str, Any]) -> str:
        self._next += 1
        envelope = f"env-{self._next}"
        payload = {"token": "t", "team_id": "T0", "api_app_id": "A0", "type": "event_callback"}
        payload |= {"event": event, "event_id": f"Ev{self._next}", "event_time": int(time.time())}
        await self._to_all(
            {
                "envelope_id": envelope,
                "type": "events_api",
                "accepts_response_payload": False,
                "retry_attempt": 0,
                "retry_reason": "",
                "payload": payload,
            }
        )
        return envelope

    async def _to_all(self, told: dict[str, Any]) -> None:
        for socket in self._sockets[-1:]:  # One of the open ones gets it.
            with suppress(ConnectionError):  # Whoever listened was killed just now.
                await socket.send_str(json.dumps(told))

    def _ts(self) -> str:
        self._next += 1
        return f"{time.time():.3f}{self._next % 1000:03d}"

    async def hang_up(self) -> None:
        for socket in list(self._sockets):
            await socket.close()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_route("*", "/api/{method}", self._method)
        router.add_get("/socket", self._socket)
        router.add_post("/upload/{id}", self._upload)
        router.add_get("/files/{name}", self._file)

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await socket.send_str(json.dumps({"type": "hello", "num_connections": 1, "connection_info": {}}))
        self._sockets.append(socket)
        try:
            async for told in socket:
                if told.type == WSMsgType.TEXT:
                    self.acknowledged.add(json.loads(told.data)["envelope_id"])
        finally:
            self._sockets.remove(socket)
        return socket

    async def _file(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers.get("authorization")))
        data = self.files.get(request.match_info["name"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    async def _upload(self, request: web.Request) -> web.Response:
        name, _ = self._waiting[request.match_info["id"]]
        self._waiting[request.match_info["id"]] = (name, await request.read())
        return web.Response(text="OK")

    async def _method(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        values: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            values |= await request.json()
        else:
            values |= dict(await request.post())
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or values.get("token")
        if token != (APP_TOKEN if method == "apps.connections.open" else TOKEN):
            return web.json_response({"ok": False, "error": "invalid_auth"})
        for number, (name, told) in enumerate(self.refusals):
            if name == method:
                del self.refusals[number]
                headers = {"Retry-After": "0"} if told["error"] == "ratelimited" else {}
                return web.json_response(
                    {"ok": False, **told}, status=429 if headers else 200, headers=headers
                )
        return web.json_response({"ok": True, **getattr(self, "_" + method.replace(".", "_"))(values)})

    def _auth_test(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"user_id": BOT, "user": "nexus", "bot_id": "B0BOT", "team_id": "T0", "url": self.origin}

    def _apps_connections_open(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"url": f"{self.origin.replace('http', 'ws')}/socket"}

    def _users_conversations(self, values: dict[str, Any]) -> dict[str, Any]:
        found = [_conversation(id_) for id_ in self.said]
        # A page each, as Slack may do at any time.
        at = int(values.get("cursor") or 0)
        more = str(at + 1) if at + 1 < len(found) else ""
        return {"channels": found[at : at + 1], "response_metadata": {"next_cursor": more}}

    def _conversations_history(self, values: dict[str, Any]) -> dict[str, Any]:
        said = [
            each for each in self.said[values["channel"]] if each.get("thread_ts", each["ts"]) == each["ts"]
        ]
        return self._page(said[::-1], values)

    def _conversations_replies(self, values: dict[str, Any]) -> dict[str, Any]:
        root = values["ts"]
        said = [each for each in self.said[values["channel"]] if root in (each["ts"], each.get("thread_ts"))]
        return self._page(said, values)

    def _page(self, said: list[dict[str, Any]], values: dict[str, Any]) -> dict[str, Any]:
        found = [
            each for each in said if each["ts"] > values.get("oldest", "0") or each["ts"] == values.get("ts")
        ]
        at = int(values.get("cursor") or 0)
        more = str(at + 2) if at + 2 < len(found) else ""
        return {"messages": found[at : at + 2], "response_metadata": {"next_cursor": more}}

    def _conversations_info(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"channel": _conversation(values["channel"])}

    def _users_info(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"user": {"id": values["user"], "name": "hana", "real_name": "Hana Ito"}}

    def _chat_postMessage(self, values: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - as the API names it
        if values["channel"] not in self.said:
            return {"ok": False, "error": "channel_not_found"}
        if len(values["markdown_text"]) > 12_000:
            return {"ok": False, "error": "msg_too_long"}
        ts = self._ts()
        self.sent.append({**values, "ts": ts})
        return {"ts": ts, "channel": values["channel"]}

    def _chat_update(self, values: dict[str, Any]) -> dict[str, Any]:
        found = [each for each in self.sent if each["ts"] == values["ts"]]
        if not found:
            return {"ok": False, "error": "message_not_found"}
        found[0]["markdown_text"] = values["markdown_text"]
        return {"ts": values["ts"], "channel": values["channel"]}

    def _reactions_add(self, values: dict[str, Any]) -> dict[str, Any]:
        self.reactions.append((values["channel"], values["timestamp"], values["name"]))
        self.reacted.append(self.reactions[-1])
        return {}

    def _reactions_remove(self, values: dict[str, Any]) -> dict[str, Any]:
        self.reactions.remove((values["channel"], values["timestamp"], values["name"]))
        return {}

    def _files_getUploadURLExternal(self, values: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self._next += 1
        id_ = f"F{self._next}"
        self._waiting[id_] = (str(values["filename"]), b"")
        return {"file_id": id_, "upload_url": f"{self.origin}/upload/{id_}"}

    def _files_completeUploadExternal(self, values: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        given = values["files"]
        files = json.loads(given) if isinstance(given, str) else given
        assert values["channel_id"] in self.said
        for file in files:
            self.uploaded.append(self._waiting.pop(file["id"]))
        return {"files": files}


def _conversation(id_: str) -> dict[str, Any]:
    if id_.startswith("D"):
        return {"id": id_, "is_im": True, "user": HANA}
    return {"id": id_, "is_im": False, "name": "trip"}
