"""When the model cannot be used: each reason is told in plain words, with what to do about it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.agents import PATIENCE_MS, environment, finish
from acceptance.faults import found
from acceptance.program import NEXUS
from nexus.home import Home
from nexus.testing import HttpError, ModelServer, Silence, failures


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(keys=["right"], models=["large"]) as server:
        yield server


def _environment(server: ModelServer, **more: str) -> dict[str, str]:
    return environment(
        server,
        NEXUS_PROVIDERS_TEST_MAX_RETRIES="0",
        NEXUS_PROVIDERS_TEST_TIMEOUT_MS="5000",
        NEXUS_PROVIDERS_TEST_API_KEY="env:TEST_KEY",
        TEST_KEY="right",
        **more,
    )


def test_each_reason_of_a_provider_is_told_with_what_to_do(home: Home, server: ModelServer) -> None:
    server.script(
        failures.unauthorized(),
        HttpError("not_found", message="model: large"),
        failures.overloaded(),
        failures.out_of_quota(),
        Silence(hold_ms=PATIENCE_MS),
    )
    done = finish(home, _environment(server), "chat", stdin="1\n2\n3\n4\n5\n")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    for message, hint in (
        ("401 invalid x-api-key", "Put a valid API key in env:TEST_KEY, or run `nexus init` to enter one."),
        (
            "404 model: large",
            "Fix the name `test/large` in [models] in config.toml, or run",
        ),
        ("529 Overloaded", "Try again later, or add a fallback model in [models]"),
        ("402 ", "Check your account with the provider: its credit or quota is used up."),
        ("no answer within 5000 ms", f"Start the server at {server.url}, or fix `base_url` in"),
    ):
        told = done.stderr.partition(f"No model answered:\n- test/large: {message}")[2].splitlines()
        assert told, f"{message} was not told: {done.stderr}"
        assert hint in told[1]


def test_a_server_that_is_down(home: Home) -> None:
    url = "http://127.0.0.1:9"
    home.config_file.write_text(f'[models]\nmanager = "test/x"\n[providers.test]\nbase_url = "{url}"\n')
    [finding] = found(home.root, "servers")
    assert finding["message"] == f"Can't reach the model server test at {url}: Connection refused"


def test_a_file_with_a_key_that_cannot_be_read_or_that_others_can(home: Home, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("right\n")
    home.config_file.write_text(
        f'[models]\nmanager = "anthropic/x"\n[providers.anthropic]\napi_key = "file:{key}"\n'
    )
    key.chmod(0o000)
    [finding] = found(home.root, "models", apart=True)
    assert finding["message"] == f"anthropic/x: Can't read the secret in {key}: Permission denied"
    assert finding["remedy"] == f"Run `chmod 600 '{key}'`."
    key.chmod(0o644)
    [finding] = found(home.root, "permissions")
    assert "is accessible to other users" in finding["message"]
    assert found(home.root, "permissions", "--fix") == []
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_machine_without_a_sandbox(home: Home, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(NEXUS), "--home", str(home.root), "doctor"],
        env={**environment(None), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, "a warning, because the memory works without it"
    assert "warning  sandbox      Tools need a sandbox, and bubblewrap is not installed" in done.stdout
    assert "`apt-get install bubblewrap`" in done.stdout
