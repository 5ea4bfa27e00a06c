"""The audit log: every administrative act once, by whom, and nothing that could be used or read."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus.errors import HomeError
from nexus.hosting import audit
from nexus.hosting.audit import Audit


def lines(root: Path) -> list[dict[str, Any]]:
    return list(_read(audit.path(root)))


def _read(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def test_an_act_is_a_line_with_who_when_and_the_result(tmp_path: Path) -> None:
    log = Audit(tmp_path)
    with log.act("home.add", who="user:root", home="ada", note=None):
        assert not audit.path(tmp_path).exists(), "it is recorded when it was done"
    with pytest.raises(HomeError), log.act("home.add", who="user:root", home="ada"):
        raise HomeError("There is a home named ada")
    with pytest.raises(ZeroDivisionError), log.act("home.limit", who="user:root", home="ada"):
        raise ZeroDivisionError("words of somebody")
    done, known, broken = lines(tmp_path)
    assert done.pop("at") <= known.pop("at")
    assert done == {"who": "user:root", "act": "home.add", "result": "ok", "home": "ada"}
    assert (known["result"], known["reason"]) == ("failed", "There is a home named ada")
    assert (broken["result"], broken["reason"]) == ("failed", "ZeroDivisionError")
    assert audit.path(tmp_path).stat().st_mode & 0o077 == 0


def test_the_file_is_rotated_by_size_and_the_oldest_goes(tmp_path: Path) -> None:
    log = Audit(tmp_path, most_bytes=400)
    for number in range(60):
        log.record("home.limit", who="user:root", number=number)
    files = sorted(audit.path(tmp_path).parent.glob("audit.jsonl*"))
    assert len(files) == 10
    assert all(file.stat().st_size <= 400 for file in files)
    newest = [line["number"] for line in lines(tmp_path)]
    before = [line["number"] for line in _read(audit.path(tmp_path).with_name("audit.jsonl.1"))]
    assert newest[-1] == 59
    assert before[-1] + 1 == newest[0]


def test_several_writers_lose_and_mix_no_line(tmp_path: Path) -> None:
    def write(name: str) -> None:
        log = Audit(tmp_path, most_bytes=4_000)
        for number in range(40):
            log.record("home.limit", who=name, number=number)

    threads = [threading.Thread(target=write, args=(f"user:{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [
        (line["who"], line["number"])
        for file in audit.path(tmp_path).parent.glob("audit.jsonl*")
        for line in _read(file)
    ]
    assert sorted(found) == sorted((f"user:{n}", number) for n in range(4) for number in range(40))


def test_whoever_tries_many_tokens_does_not_push_out_the_rest(tmp_path: Path) -> None:
    now = 1_000.0
    log = Audit(tmp_path, now=lambda: now)
    for number in range(5_000):
        log.record_refusal("token.use", who=audit.by_token(str(number)), home="ada")
    assert len(lines(tmp_path)) == 100
    now += 10
    log.record_refusal("token.use", who="token:1", home="ada")
    assert lines(tmp_path)[-1]["unwritten_before"] == 4_900


def test_a_token_is_named_by_a_part_of_its_digest(tmp_path: Path) -> None:
    assert audit.by_token("secret") == audit.by_token("secret") != audit.by_token("Secret")
    assert "secret" not in audit.by_token("secret")
    assert len(audit.by_token("secret")) == len("token:") + 12


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "logs").write_text("a file in its place")
    with Audit(tmp_path).act("home.add", who="user:root"):
        pass
    assert "was not recorded in the audit log" in caplog.text
