"""Messages through a webhook, at a steady rate: none lost, memory flat, and the owner's chat still answers.

    python bench/webhooks.py                           1,000 messages a minute for ten minutes
    python bench/webhooks.py --write                   and puts the figures into RESULTS.md
    python bench/webhooks.py --quick                   a few seconds, to see that it works

`nexus up` runs in a process of its own, with a model server that answers immediately. The messages are in 200
conversations of the owner's and are answered. Every few seconds the owner also asks something in the chat.
"""

import argparse
import hashlib
import hmac
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import httpx
from model_server import model_server
from report import Figure, machine, progress, table, write_section

from nexus.home import Home

_KEY, _SECRET = "BENCH_MODEL_KEY", "BENCH_HOOK_SECRET"
_THREADS = 200
_CHAT_EVERY_S = 5.0
_LOOK_S = 0.05
# For the memory to learn from the last messages. It may take longer.
_SETTLES_S = 20.0
_RECEIVED = "SELECT count(*) FROM events WHERE direction = 'inbound' AND channel = 'desk'"


class Receiver:
    """Where answers go: counts them by key."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        receiver = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.keys.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["key"])
                self.send_response(204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(kw_only=True)
class Load:
    """What was measured."""

    seconds: float
    """For how long messages are sent, if each is accepted in time."""
    sent: int = 0
    refused: int = 0
    recorded: int = 0
    answered: int = 0
    repeated: int = 0
    took_s: float = 0.0
    drained_s: float = 0.0
    processor_s: float = 0.0
    idle_ms: list[float] = field(default_factory=list[float])
    after_ms: list[float] = field(default_factory=list[float])
    """Idle again, in a home that has all of the messages by now."""
    busy_ms: list[float] = field(default_factory=list[float])
    memory_mib: list[float] = field(default_factory=list[float])


def measure(per_minute: int, seconds: float) -> Load:
    """Send messages at that rate, and wait until all are answered."""
    found = Load(seconds=seconds)
    with (
        tempfile.TemporaryDirectory() as name,
        model_server(Path(name), {"always": {"text": "ok"}}) as model,
        closing(Receiver()) as receiver,
    ):
        home = Home(Path(name) / "home")
        environment = _prepare(home, model, receiver.url)
        with _served(home, environment) as (pid, address):
            with _owner(home, address) as owner:
                found.idle_ms = [_chat_ms(owner) for _ in range(10)]
            found.memory_mib.append(_memory_mib(pid))
            progress(f"idle: {median(found.idle_ms):.0f} ms for a chat, {found.memory_mib[0]:.0f} MiB")
            before_s = _processor_s(pid)
            _send(found, home, address, pid, per_minute, seconds)
            began = time.monotonic()
            while len(set(receiver.keys)) < found.sent and time.monotonic() - began < 10 * seconds + 60:
                time.sleep(_LOOK_S)
            found.drained_s = time.monotonic() - began
            found.processor_s = _processor_s(pid) - before_s
            found.memory_mib.append(_memory_mib(pid))
            time.sleep(_SETTLES_S if seconds > _CHAT_EVERY_S else 0)
            with _owner(home, address) as owner:
                found.after_ms = [_chat_ms(owner) for _ in range(10)]
        found.answered = len(set(receiver.keys))
        found.repeated = len(receiver.keys) - found.answered
        connection = apsw.Connection(str(home.ledger("events")), flags=apsw.SQLITE_OPEN_READONLY)
        with closing(connection):
            found.recorded = int(str(connection.execute(_RECEIVED).get))
    return found


def _send(found: Load, home: Home, address: str, pid: int, per_minute: int, seconds: float) -> None:
    total, began = max(1, round(per_minute * seconds / 60)), time.monotonic()
    with (
        httpx.Client(base_url=address, timeout=120) as client,
        _owner(home, address) as owner,
        ThreadPoolExecutor(16) as pool,
    ):

        def post(number: int) -> None:
            time.sleep(max(0.0, began + number * 60 / per_minute - time.monotonic()))
            place = {"id": f"m{number}", "thread": f"t{number % _THREADS}"}
            body = {**place, "sender": "me", "text": f"Note {number}"}
            if not client.post("/hooks/desk", **_signed(body)).is_success:
                found.refused += 1

        posts = [pool.submit(post, number) for number in range(total)]
        while not all(each.done() for each in posts):
            found.busy_ms.append(_chat_ms(owner))
            found.memory_mib.append(_memory_mib(pid))
            time.sleep(_CHAT_EVERY_S if seconds > _CHAT_EVERY_S else 0)
        for each in posts:
            each.result()
    found.sent, found.took_s = total, time.monotonic() - began
    progress(f"{total} messages in {found.took_s:.0f} s")


def figures(found: Load) -> list[Figure]:
    """The table."""
    idle, busy, after = median(found.idle_ms), median(found.busy_ms), median(found.after_ms)
    first, highest, last = found.memory_mib[0], max(found.memory_mib), found.memory_mib[-1]
    middle = found.memory_mib[len(found.memory_mib) // 2]
    lost = found.sent - found.answered
    return [
        Figure("messages sent, seconds", f"{found.sent}, {found.took_s:.0f}"),
        Figure("refused", str(found.refused), "0", found.refused == 0),
        Figure(
            "accepted, a minute",
            f"{60 * found.sent / found.took_s:.0f}",
            "all that are sent",
            found.took_s < 1.1 * found.seconds,
        ),
        Figure("recorded", str(found.recorded), str(found.sent), found.recorded == found.sent),
        Figure("not answered", str(lost), "0", lost == 0),
        Figure("answered twice", str(found.repeated), "0", found.repeated == 0),
        Figure("from the last message to the last answer", f"{found.drained_s:.1f} s"),
        Figure(
            "taken in and answered, a minute", f"{60 * found.answered / (found.took_s + found.drained_s):.0f}"
        ),
        Figure("processor time of a message", f"{1000 * found.processor_s / found.sent:.0f} ms"),
        Figure(
            "the owner's chat, idle, in the empty home and after all messages, p50",
            f"{idle:.0f}, {after:.0f} ms",
        ),
        Figure(
            "the owner's chat under load, p50",
            f"{busy:.0f} ms",
            f"at most twice: {2 * idle:.0f} or {2 * after:.0f}",
            busy <= 2 * idle,
        ),
        Figure(
            "memory: idle, halfway, highest, at the end",
            f"{first:.0f}, {middle:.0f}, {highest:.0f}, {last:.0f} MiB",
        ),
    ]


def _signed(body: dict[str, str]) -> dict[str, Any]:
    data = json.dumps(body).encode()
    at = str(int(time.time()))
    digest = hmac.new(_SECRET.encode(), f"{at}.".encode() + data, hashlib.sha256).hexdigest()
    return {"content": data, "headers": {"nexus-signature": f"t={at},v1={digest}"}}


def _owner(home: Home, address: str) -> httpx.Client:
    """An open chat, as a browser or terminal has one."""
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {home.token()}"}, timeout=600)


def _chat_ms(owner: httpx.Client) -> float:
    """From a message to the end of its answer, which is followed as it is written."""
    began = time.monotonic()
    body = {"text": "What is on today?", "session": "main"}
    id_ = owner.post("/api/messages", json=body).raise_for_status().json()["execution_id"]
    with owner.stream("GET", f"/api/executions/{id_}/stream") as answer:
        assert b"event: result" in answer.raise_for_status().read()
    return 1000 * (time.monotonic() - began)


def _prepare(home: Home, model: str, answers: str) -> dict[str, str]:
    subprocess.run([sys.executable, "-m", "nexus", "--home", str(home.root), "init"], check=True, stdout=-3)
    home.config_file.write_text(
        '[models]\nmanager = "free/large"\nwriter = "none"\n'
        f'[providers.free]\nkind = "anthropic"\nbase_url = "{model}"\napi_key = "env:{_KEY}"\n'
        f'[channels.desk]\nkind = "webhook"\nsecret = "env:{_SECRET}"\nurl = "{answers}"\nowner = ["me"]\n'
    )
    # An installed program has its bytecode.
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**bare, _KEY: "k", _SECRET: _SECRET}


@contextmanager
def _served(home: Home, environment: dict[str, str]) -> Generator[tuple[int, str]]:
    words = [sys.executable, "-m", "nexus", "--home", str(home.root), "up", "--json"]
    up = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert up.stdout is not None
        yield up.pid, str(json.loads(up.stdout.readline())["url"])
    finally:
        up.terminate()
        up.wait()


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--per-minute", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = measure(given.per_minute, 2.0 if given.quick else 60 * given.minutes)
    text = table(figures(found))
    print(text)
    if given.write:
        rate = f"{given.per_minute} messages a minute for {given.minutes:g} minutes"
        words = f"`python bench/webhooks.py`, {rate}."
        write_section("webhooks", f"## Messages through a webhook\n\n{words} {machine()}\n\n{text}")


if __name__ == "__main__":
    main()
