"""Channels of the tests: a webhook with a place for its answers, and what models answer."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx

from acceptance.running import Served
from nexus.testing import ModelRequest, ToolCall, Turn

HOOK_SECRET: Final = "what both sides know"


class Receiver:
    """Where a webhook sends its answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 204
        receiver = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                at, digest = self.headers["nexus-signature"].removeprefix("t=").split(",v1=")
                assert digest == _digest(at, body)
                if receiver.status < 300:
                    receiver.got.append(json.loads(body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def texts(self) -> list[str]:
        return [each["text"] for each in self.got]


def post_signed(served: Served, id_: str, text: str, *, sender: str = "me", **more: Any) -> httpx.Response:
    """Send a message to the webhook `desk`, as one that knows the secret."""
    body = json.dumps({"id": id_, "thread": "t", "sender": sender, "text": text, **more}).encode()
    at = str(int(time.time()))
    headers = {"nexus-signature": f"t={at},v1={_digest(at, body)}"}
    return httpx.post(f"{served.url}/hooks/desk", content=body, headers=headers, timeout=60)


def _digest(at: str, body: bytes) -> str:
    return hmac.new(HOOK_SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def echo_word(request: ModelRequest) -> Turn:
    """Answers with the last word of what was said."""
    said = str(request.json["messages"][-1]["content"]).replace("\\n", " ")
    word = next(each for each in reversed(said.split()) if each.startswith("word"))
    return Turn(f"You said {word.rstrip(chr(39) + '}],')}")


def recalling(request: ModelRequest) -> Turn:
    """Asks the memory first, whatever was said."""
    if "tool_result" in str(request.json["messages"][-1]):
        return Turn("Here is what I know.")
    return Turn("", [ToolCall("recall", {"query": "door code"})])


def sending(file: Path) -> Callable[[ModelRequest], Turn]:
    """Sends a file to who asks for it, and otherwise answers with the last word of what was said."""

    def answer(request: ModelRequest) -> Turn:
        last = str(request.json["messages"][-1])
        if "tool_result" in last:
            return Turn("Here is the file.")
        if "Send me the file" in last:
            return Turn("", [ToolCall("send_file", {"path": str(file)})])
        return echo_word(request)

    return answer
