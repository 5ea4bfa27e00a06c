"""Notifications leave through Apprise to a service on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from nexus.channels.adapter import Delivery, DeliveryError
from nexus.channels.notify import Notify
from nexus.errors import ConfigError
from nexus.testing.adapter import RecordingInbox, running

# One of the services that Apprise loads uses a module of the standard library that Python 3.13 no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


class _Service:
    """Takes notifications as Apprise sends them to `json://`."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        service = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if service.status == 200:
                    service.got.append(body)
                self.send_response(service.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"json://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[_Service]:
    made = _Service()
    yield made
    made.close()


async def test_a_notification_reaches_every_service_and_a_refusal_is_told(service: _Service) -> None:
    adapter = Notify("phone", urls=f"{service.url} {service.url}other")
    async with running(adapter, RecordingInbox()):
        await adapter.deliver(Delivery(key="evt_1", thread="main", text="Water the plants", title="Reminder"))
        assert [(each["title"], each["message"]) for each in service.got] == [
            ("Reminder", "Water the plants")
        ] * 2
        service.status = 500
        with pytest.raises(DeliveryError) as caught:
            await adapter.deliver(Delivery(key="evt_2", thread="main", text="Again"))
        assert not caught.value.final


@pytest.mark.parametrize("urls", ["", "nothing", "nosuchservice://x"])
def test_what_is_no_service_is_refused(urls: str) -> None:
    with pytest.raises(ConfigError, match="phone"):
        Notify("phone", urls=urls)
