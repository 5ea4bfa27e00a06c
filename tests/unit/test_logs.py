"""The log of a home that is served."""

import io
import json
import logging
from typing import Any

import pytest

from nexus import logs
from nexus.home import Home
from nexus.logs import Logging, Tail, path, read

log = logging.getLogger("nexus.tests")


def masked(text: str) -> str:
    return text.replace("hunter2", "[secret]")


def lines(home: Home) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(home)]


def test_what_is_logged_is_a_line_of_json_that_others_cannot_read(home: Home) -> None:
    with Logging(home, masked, io.StringIO()):
        log.info("answered", extra={"route": "/api/home", "status": 200})
    (line,) = lines(home)
    assert (line["level"], line["from"], line["message"]) == ("info", "tests", "answered")
    assert (line["route"], line["status"]) == ("/api/home", 200)
    assert path(home).stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_before_or_after(home: Home) -> None:
    with Logging(home, masked, io.StringIO()):
        log.info("within")
    log.warning("after")
    assert [line["message"] for line in lines(home)] == ["within"]


def test_secrets_are_masked_on_the_terminal_too(home: Home) -> None:
    terminal = io.StringIO()
    with Logging(home, masked, terminal):
        log.warning("the key hunter2 was refused")
        log.info("not on the terminal")
    assert terminal.getvalue() == "nexus: the key [secret] was refused\n"
    assert "hunter2" not in path(home).read_text()


def test_of_an_unforeseen_error_its_kind_and_place_are_kept_and_not_its_words(home: Home) -> None:
    with Logging(home, masked, io.StringIO()):
        try:
            raise ValueError("dear diary")
        except ValueError:
            log.exception("it failed")
    (line,) = lines(home)
    assert line["error"] == "ValueError"
    assert "test_of_an_unforeseen_error" in line["trace"][-1]
    assert "diary" not in path(home).read_text()


def test_the_log_does_not_grow_without_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_BYTES", 2_000)
    with Logging(home, masked, io.StringIO()):
        for number in range(300):
            log.info("line", extra={"number": number})
    kept = [line["number"] for line in lines(home)]
    assert kept == list(range(kept[0], 300)), "the newest, in order"
    assert sum(file.stat().st_size for file in home.logs.iterdir()) < 12_000
    assert len(list(home.logs.iterdir())) == 5


def test_a_follower_sees_what_comes_also_when_the_file_is_put_aside(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_MOST_BYTES", 1_000)
    tail = Tail(home)
    seen: list[str] = []
    with Logging(home, masked, io.StringIO()):
        for number in range(40):
            log.info("line", extra={"number": number})
            seen += tail.next()
    tail.close()
    assert [json.loads(line)["number"] for line in seen] == list(range(40))
