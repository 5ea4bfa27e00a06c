"""Steady requests to a home, whatever happens to its hosts."""

import threading
import time
from typing import Final

import httpx

_PATIENCE_S: Final = 120


class Steady(threading.Thread):
    """Asks for something all the time, through one host, and keeps what went wrong."""

    def __init__(self, client: httpx.Client, stop: threading.Event) -> None:
        super().__init__()
        self._client = client
        self._stop_asking = stop
        self.answered = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        with self._client as client:
            while not self._stop_asking.is_set():
                for method, path in (("GET", "/api/sessions"), ("POST", "/api/messages")):
                    body = {"text": f"Message {self.answered}"} if method == "POST" else None
                    try:
                        answer = client.request(method, path, json=body)
                    except httpx.HTTPError as error:
                        self.wrong.append(f"{method} {path}: {error!r}")
                        continue
                    self.answered += 1
                    if answer.status_code >= 400:
                        self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")
                time.sleep(0.1)


def until_answered(steady: list[Steady], more: int) -> None:
    """Until each of them was answered a few times more."""
    wanted = [each.answered + more for each in steady]
    until = time.monotonic() + _PATIENCE_S
    while any(each.answered < count for each, count in zip(steady, wanted, strict=True)):
        assert time.monotonic() < until, [each.wrong for each in steady]
        time.sleep(0.1)
