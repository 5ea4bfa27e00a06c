"""`nexus models` and `nexus models test`, against a model server."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from nexus.cli.models import models
from nexus.home import Home
from nexus.testing import PROFILES, ModelServer
from trials import able


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(profile=PROFILES["slow_slot"]) as server:
        server.always(able)
        monkeypatch.setenv("NEXUS_PROVIDERS_CELLAR_BASE_URL", server.openai_url)
        monkeypatch.setenv("NEXUS_MODELS_MANAGER", "cellar/small")
        monkeypatch.setenv("NEXUS_MODELS_WRITER", "cellar/small")
        yield server


def test_a_test_is_printed_kept_and_shown(home: Home, server: ModelServer) -> None:
    before = CliRunner().invoke(models, obj=str(home.root))
    assert "cellar/small: manager, writer" in before.output
    assert "Not tested." in before.output
    assert "Run `nexus models test`" in before.output

    tested = CliRunner().invoke(models, ["test"], obj=str(home.root))
    assert tested.exit_code == 0, tested.output
    assert "Testing cellar/small… question… tool call… JSON answer…\n" in tested.output
    assert "tool calls, JSON answers" in tested.output
    assert len(server.requests) == 3, "one question, one tool call, one JSON answer"

    after = CliRunner().invoke(models, obj=str(home.root)).output
    for part in ("tool calls", "JSON answers", "tokens/s", "1 request at a time", "Tested 20"):
        assert part in after
    assert "nexus models test" not in after


def test_what_a_model_cannot_do_is_said(home: Home, server: ModelServer) -> None:
    server.reset()
    server.always("I would rather talk about something else, such as the weather of the last few days.")
    shown = CliRunner().invoke(models, ["test", "cellar/small"], obj=str(home.root)).output
    assert "no tool calls, no JSON answers" in shown
    assert "It didn't call a tool when asked to, so" in shown


def test_a_model_that_does_not_answer_is_told_with_what_to_do(
    home: Home, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_PROVIDERS_CELLAR_BASE_URL", "http://127.0.0.1:9/v1")
    failed = CliRunner().invoke(models, ["test"], obj=str(home.root))
    assert failed.exit_code == 1
    assert "cellar/small failed: Connection refused" in failed.stderr
    assert "Start the server at http://127.0.0.1:9/v1" in failed.stderr
