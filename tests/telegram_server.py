"""A server that speaks the Bot API of Telegram as its documentation describes it, for tests."""

import json
import threading
import time
from email.message import Message as Mail
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TOKEN: Final = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
BOT: Final = {"id": 110201543, "is_bot": True, "first_name": "Agent", "username": "nexus_agent_bot"}
_LONGEST_POLL_S: Final = 5.0


class TelegramServer:
    """Updates are handed over until a later offset is asked for; what the bot sends is kept."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.shown: list[dict[str, Any]] = []
        """What the bot showed itself to be doing."""
        self.refusals: list[tuple[str, dict[str, Any]]] = []
        """Methods, and what is answered to the next call of each instead of the result."""
        self._updates: list[dict[str, Any]] = []
        self._next = 1
        self._lock = threading.Condition()
        handler = _handler(self)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def write(
        self, text: str = "", *, sender: int = 7, chat: int | None = None, is_bot: bool = False, **more: Any
    ) -> int:
        """Somebody writes to the bot; returns the id of the message."""
        with self._lock:
            id_ = self._next
            self._next += 1
            group = chat is not None and chat < 0
            message: dict[str, Any] = {
                "message_id": id_,
                "date": int(time.time()),
                "from": {"id": sender, "is_bot": is_bot, "first_name": "Hana", "last_name": "Ito"},
                "chat": {"id": chat or sender, "type": "supergroup" if group else "private"},
                **({"text": text} if text else {}),
                **more,
            }
            if group:
                message["chat"]["title"] = "Trip"
            self._updates.append({"update_id": 1000 + id_, "message": message})
            self._lock.notify_all()
            return id_

    def edit(self, id_: int, text: str, *, sender: int = 7, at: int = 1_800_000_000, **more: Any) -> None:
        """Somebody changes what they wrote."""
        person = {"id": sender, "is_bot": False, "first_name": "Hana", "last_name": "Ito"}
        message = {"message_id": id_, "date": at - 60, "edit_date": at, "from": person, "text": text, **more}
        self.add_update({"edited_message": {"chat": {"id": sender, "type": "private"}, **message}})

    def add_update(self, update: dict[str, Any]) -> None:
        with self._lock:
            self._updates.append({"update_id": 1000 + self._next, **update})
            self._next += 1
            self._lock.notify_all()

    def texts(self) -> list[str]:
        return [each["text"] for each in self.sent if "text" in each]

    def call(self, method: str, values: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            for number, (name, told) in enumerate(self.refusals):
                if name == method:
                    del self.refusals[number]
                    return int(told["error_code"]), {"ok": False, **told}
        result = getattr(self, f"_{method}")(values)
        if result is None:
            return 400, {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}
        return 200, {"ok": True, "result": result}

    def _getMe(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        return BOT

    def _getUpdates(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        offset, end = (
            int(values.get("offset", 0)),
            time.monotonic() + min(_LONGEST_POLL_S, float(values.get("timeout", 0))),
        )
        with self._lock:
            if offset < 0:
                return self._updates[offset:]
            self._updates = [each for each in self._updates if each["update_id"] >= offset]
            while not self._updates and (rest := end - time.monotonic()) > 0:
                self._lock.wait(rest)
            return self._updates[:100]

    def _getFile(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        return {"file_id": values["file_id"], "file_path": f"documents/{values['file_id']}"}

    def _sendMessage(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        if len(values["text"].encode("utf-16-le")) // 2 > 4096 or not values["text"].strip():
            return None
        return self._keep(values)

    def _sendDocument(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        return self._keep(values)

    def _sendChatAction(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        self.shown.append(values)
        return True

    def _editMessageText(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        with self._lock:
            found = [each for each in self.sent if each["message_id"] == values["message_id"]]
            if not found or found[0]["chat_id"] != values["chat_id"]:
                return None
            found[0]["text"] = values["text"]
            return found[0]

    def _deleteMessage(self, values: dict[str, Any]) -> Any:  # noqa: N802 - as the API names it
        with self._lock:
            self.sent[:] = [each for each in self.sent if each["message_id"] != values["message_id"]]
        return True

    def _keep(self, values: dict[str, Any]) -> Any:
        with self._lock:
            self._next += 1
            self.sent.append({**values, "message_id": self._next})
            return {"message_id": self._next, "chat": {"id": int(values["chat_id"])}}


def _handler(server: TelegramServer) -> type[BaseHTTPRequestHandler]:
    class _Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            token, _, method = self.path.removeprefix("/bot").partition("/")
            if token != TOKEN:
                self._answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
                return
            self._answer(*server.call(method, _values(self.headers, body)))

        def do_GET(self) -> None:
            name = self.path.removeprefix(f"/file/bot{TOKEN}/documents/")
            data = server.files.get(name)
            self.send_response(200 if data is not None else 404)
            self.send_header("content-length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def _answer(self, status: int, told: dict[str, Any]) -> None:
            data = json.dumps(told).encode()
            try:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # Whoever asked is gone: killed, or stopped.

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            ...

    return _Handler


def _values(headers: Mail, body: bytes) -> dict[str, Any]:
    if headers.get_content_type() == "application/json":
        return json.loads(body)
    whole = BytesParser().parsebytes(f"Content-Type: {headers['content-type']}\r\n\r\n".encode() + body)
    values: dict[str, Any] = {}
    for part in whole.walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            values[name] = (part.get_filename(), data) if part.get_filename() else data.decode()
    return values
