"""`python -m nexus.testing.model_server`, and clients that are killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from nexus.testing import ModelServer, Stall, Turn

CLIENT = """
import os
import httpx
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
with httpx.stream("POST", os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body) as answer:
    for line in answer.iter_lines():
        print(line, flush=True)
"""


@contextmanager
def _program(*arguments: str) -> Generator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-m", "nexus.testing.model_server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_program_serves_a_script_until_it_is_told_to_end(tmp_path: Path, ending: signal.Signals) -> None:
    script, prices = tmp_path / "script.json", tmp_path / "prices.json"
    script.write_text('{"steps": ["Hello from the script"]}')
    prices.write_text('{"m": {"input": 0.1, "output": 0.4}}')
    arguments = ["--script", str(script), "--prices", str(prices), "--key", "right", "--echo"]
    with _program(*arguments) as (process, told):
        body = {"model": "m", "messages": [{"role": "user", "content": "Polly"}]}
        with httpx.Client(base_url=told["openai_url"]) as client:
            assert client.post("/chat/completions", json=body).status_code == 401
            client.headers["authorization"] = "Bearer right"
            answers = [client.post("/chat/completions", json=body).json() for _ in range(2)]
            totals = client.get(f"{told['url']}/_nexus/totals").json()
        said = [answer["choices"][0]["message"]["content"] for answer in answers]
        assert said == ["Hello from the script", "Polly"]
        assert totals["requests"] == 3
        assert float(totals["cost"]) > 0
        process.send_signal(ending)
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_program_says_what_is_wrong_with_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"turns": []}')
    ended = subprocess.run(
        [sys.executable, "-m", "nexus.testing.model_server", "--script", str(script)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 2
    assert "unknown fields: turns" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_server_outlives_a_client_killed_in_the_middle_of_a_stream() -> None:
    with ModelServer() as server:
        server.script(Turn("word " * 40, faults=[Stall(ms=60_000, after_deltas=2)]), "again")
        environment = server.environment()
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT], env=environment, stdout=subprocess.PIPE
        ) as client:
            server.wait_until(
                lambda: server.exchanges and b"word" in server.exchanges[0].answer.sent, timeout_ms=60_000
            )
            client.kill()
        server.wait_until(lambda: server.exchanges[0].answer.outcome == "hung_up")
        ended = subprocess.run(
            [sys.executable, "-c", CLIENT], env=environment, capture_output=True, text=True
        )
        assert '"content": "again"' in ended.stdout, ended.stderr
        assert server.exchanges[1].answer.outcome == "complete"
        assert server.requests[0].body == server.requests[1].body
