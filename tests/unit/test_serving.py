"""Who serves a home."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aiohttp import web

from nexus import clock
from nexus.errors import HomeBusyError
from nexus.home import Home
from nexus.serving import Service, Serving, serving
from threaded_server import ThreadedServer


def test_others_see_who_serves_a_home_while_it_does(home: Home) -> None:
    assert serving(home) is None
    with Serving(home) as held:
        held.tell("http://127.0.0.1:7807")
        found = serving(home)
        assert found is not None
        assert found.url == "http://127.0.0.1:7807"
        assert found.pid == os.getpid()
    assert serving(home) is None


def test_a_second_one_is_refused_and_told_by_whom(home: Home) -> None:
    with Serving(home) as held:
        held.tell("http://127.0.0.1:7807")
        with pytest.raises(HomeBusyError) as caught, Serving(home):
            pass
    assert "http://127.0.0.1:7807" in caught.value.message
    assert "process" in caught.value.message
    with Serving(home):
        pass


def test_what_a_killed_process_left_says_nothing(home: Home) -> None:
    (home.run / "serving").write_text('{"pid": 1, "url": "http://127.0.0.1:1", "since": "x"}')
    assert serving(home) is None


_STOPPED_IN_A_WRITE = """
import os, signal, sys
from pathlib import Path
import apsw
from nexus.home import Home
from nexus.serving import Serving

home = Home(Path(sys.argv[1]))
with Serving(home):
    connection = apsw.Connection(str(home.ledger("runtime")))
    connection.execute("BEGIN IMMEDIATE")
    os.kill(os.getpid(), signal.SIGSTOP)
    connection.execute("ROLLBACK")
"""


def test_a_command_names_the_stopped_process_that_holds_what_it_waits_for(home: Home) -> None:
    holding = subprocess.Popen([sys.executable, "-c", _STOPPED_IN_A_WRITE, str(home.root)])
    try:
        while (service := serving(home)) is None or not service.is_stopped:
            assert holding.poll() is None
            time.sleep(0.02)
        nexus = str(Path(sys.executable).with_name("nexus"))
        command = [nexus, "--home", str(home.root), "automations", "list"]
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        with subprocess.Popen(command, stdout=null, stderr=pipe, text=True) as asking:
            assert asking.stderr is not None
            told = asking.stderr.readline()
            holding.send_signal(signal.SIGCONT)
        assert asking.returncode == 0
        assert told.startswith(f"Process {holding.pid}, which serves this home, is stopped")
    finally:
        holding.kill()
        holding.wait()


def test_a_process_that_does_not_respond_is_named_once_and_waited_for() -> None:
    is_told = threading.Event()
    told: list[str] = []

    def answer_late() -> None:
        # Keeps every connection open without a word, as a process does whose loop is held up.
        waiting = [listener.accept()[0]]
        is_told.wait()
        waiting.append(listener.accept()[0])
        for connection in waiting:
            connection.sendall(b"HTTP/1.1 401 Unauthorized\r\n\r\n")
            connection.close()

    def notify(text: str) -> None:
        told.append(text)
        is_told.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        answering = threading.Thread(target=answer_late)
        answering.start()
        Service(pid=os.getpid(), url=url, since="").await_response(notify)
        answering.join()
    assert told == [
        f"Process {os.getpid()}, which serves this home at {url}, doesn't respond. "
        "Waiting; press Ctrl-C to stop."
    ]
    new = Service(pid=os.getpid(), url=url, since=clock.timestamp(clock.now()))
    assert new.silence.startswith(f"Nexus is still starting at {url} (process {os.getpid()}). Waiting")
    # Gone, or still starting: whoever asks it next says so.
    for gone in (url, ""):
        Service(pid=os.getpid(), url=gone, since="").await_response(notify)
    assert len(told) == 1


class _Gateway(ThreadedServer):
    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/recall", self._recall)

    async def hang_up(self) -> None:
        pass

    async def _recall(self, request: web.Request) -> web.Response:
        if request.headers["authorization"] != "Bearer secret":
            raise web.HTTPUnauthorized
        return web.json_response({"text": request.query["text"], "filler": "x" * 100_000})


def test_a_small_answer_needs_no_http_library() -> None:
    told: list[str] = []
    gateway = _Gateway()
    try:
        service = Service(pid=1, url=gateway.origin, since="")
        found = service.get("/api/recall?text=caf%C3%A9+%26+tea", "secret", told.append)
        assert found == {"text": "café & tea", "filler": "x" * 100_000}
        assert service.get("/api/recall?text=tea", "wrong", told.append) is None
        assert service.get("/api/unknown", "secret", told.append) is None
    finally:
        gateway.close()
    assert service.get("/api/recall?text=tea", "secret", told.append) is None  # nobody listens
    assert told == []


def test_a_process_that_keeps_silent_is_named_while_its_answer_is_awaited() -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def notify(text: str) -> None:
            told.append(text)
            connection, _ = listening.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n[1]")

        found = Service(pid=os.getpid(), url=url, since="").get("/api/recall", "secret", notify)
    assert found == [1]
    assert f"Process {os.getpid()}, which serves this home at {url}, doesn't respond" in told[0]
