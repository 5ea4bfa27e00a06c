"""Talking with the agent: in a terminal, in a pipe, in one shot, and where nothing is set up yet."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from acceptance.agents import PATIENCE_S, answers, environment, finish, start
from acceptance.terminal import Terminal
from nexus.home import Home
from nexus.testing import Hold, ModelServer, ToolCall, Turn, echo, failures


def test_a_conversation_in_a_terminal(home: Home, server: ModelServer) -> None:
    story = Turn("Once upon a time, " * 30, faults=[Hold(gate="story", after_deltas=2)])
    server.script(
        Turn("", [ToolCall("bash", {"command": "echo \x1b[31mred"})]), "Hello, \x1b[2Jowner.", story
    )
    server.script("Still here.")
    with closing(Terminal(home, environment(server), "chat")) as terminal:
        terminal.wait_for(">")
        terminal.type("Hi\r")
        terminal.wait_for("· bash echo [31mred")
        terminal.wait_for("Hello, [2Jowner.")
        terminal.wait_for("tokens in")
        terminal.type("Tell me a story\r")
        terminal.wait_for("Once upon a time")
        server.wait_until(lambda: server.gate("story").waiting)
        terminal.type("\x03")
        terminal.wait_for("Stopped.")
        terminal.type("/help\r")
        terminal.wait_for("start a new session")
        terminal.type("Are you there?\r")
        terminal.wait_for("Still here.")
        terminal.type("/quit\r")
        assert terminal.process.wait(PATIENCE_S) == 0
    assert answers(home) == ["Hello, \x1b[2Jowner.", "Still here."]
    assert "This turn was cancelled" in str(server.requests[-1].json), "the model knows of the turn it lost"


def test_a_conversation_in_a_pipe(home: Home, server: ModelServer) -> None:
    server.script("One.", "Two.", failures.unauthorized(), "Four.")
    lines = "first\nsecond\n/nonsense\nthird\n/new\nfourth\n"
    done = finish(home, environment(server), "chat", stdin=lines)
    assert done.returncode == 1, "a program learns that something failed"
    assert done.stdout == "One.\nTwo.\nFour.\n"
    assert "Unknown command /nonsense" in done.stderr
    assert "No model answered" in done.stderr
    assert "first" in str(server.requests[2].json["messages"]), "a session remembers"
    assert "first" not in str(server.requests[3].json["messages"]), "a new one does not"


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_one_shot_in_a_pipe(home: Home, server: ModelServer, wire: str) -> None:
    server.always(echo)
    env = environment(server, wire)
    plain = finish(home, env, "run", "Sum", "it", "up", stdin="a long text\n")
    assert plain.returncode == 0, plain.stderr
    assert "Sum it up\n\n<input>\na long text\n</input>" in plain.stdout
    document = json.loads(finish(home, env, "run", "--json", "--session", "tea", "More?").stdout)
    assert document["content"].endswith("More?")
    assert document["session"] == "tea"
    billed = server.exchanges[-1].answer.usage
    assert document["usage"]["input_tokens"] == billed.input_tokens
    assert document["usage"]["cache_read_tokens"] == billed.cache_read_tokens
    assert document["usage"]["output_tokens"] == billed.output_tokens


@pytest.mark.parametrize("command", [["run", "Hello"], ["chat"]])
def test_without_a_model_the_program_says_what_to_write_where(home: Home, command: list[str]) -> None:
    done = finish(home, environment(None), *command, stdin="Hello\n")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "No model configured" in done.stderr
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert str(home.config_file) in done.stderr


@pytest.mark.parametrize("command", [["run", "Hello"], ["chat"]])
def test_without_a_key_the_program_says_where_it_looked(home: Home, command: list[str]) -> None:
    env = environment(None, NEXUS_MODELS_MANAGER="anthropic/claude-opus-5")
    done = finish(home, env, *command, stdin="Hello\n")
    assert done.returncode == 1
    assert "env:ANTHROPIC_API_KEY" in done.stderr
    assert answers(home) == []


def test_a_task_waits_for_a_model_server_that_is_not_running_and_says_so_once(
    home: Home, server: ModelServer
) -> None:
    server.always("Here I am.")
    server.stop()
    env = environment(
        None,
        NEXUS_MODELS_MANAGER="ollama/qwen3",
        NEXUS_MODELS_WRITER="none",
        NEXUS_PROVIDERS_OLLAMA_BASE_URL=server.openai_url,
        NEXUS_PROVIDERS_OLLAMA_MAX_RETRIES="0",
    )
    with start(home, env, "run", "--no-wait", "Hello") as run:
        assert run.stderr is not None
        told = f"The model server at {server.openai_url} isn't running. Waiting; press Ctrl-C to stop.\n"
        assert run.stderr.readline() == told
        server.start()
        out, notes = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, out, notes) == (0, "Here I am.\n", "")


def test_a_task_is_needed(home: Home, server: ModelServer) -> None:
    done = finish(home, environment(server), "run")
    assert done.returncode == 1
    assert "No task given" in done.stderr


def test_commands_choose_a_model_attach_a_file_and_continue_a_session(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "bill.txt").write_text("The total is 42 francs.")
    server.script("First answer.", "Paid.", "Back again.")
    env = environment(server, NEXUS_MODELS_REFLECTION="test/small")
    with closing(Terminal(home, env, "chat")) as terminal:
        terminal.wait_for(">")
        terminal.type("Hello\r")
        terminal.wait_for("First answer.")
        terminal.type("/model\r")
        terminal.wait_for("test/small")
        terminal.wait_for("Choose one with /model NAME.")
        terminal.type("/model test/small\r")
        terminal.wait_for("test/small")
        terminal.type("/new\r")
        terminal.type(f"/attach {tmp_path / 'bill.txt'}\r")
        terminal.wait_for("Your next message includes bill.txt.")
        terminal.type("What is the total?\r")
        terminal.wait_for("Paid.")
        terminal.type("/sessions\r")
        terminal.wait_for("main")
        terminal.wait_for("Continue one with /sessions NUMBER.")
        terminal.type("/sessions main\r")
        terminal.type("Are you there?\r")
        terminal.wait_for("Back again.")
        terminal.type("/quit\r")
        assert terminal.process.wait(PATIENCE_S) == 0
    first, attached, continued = server.requests[:3]
    assert first.json["model"] == "large"
    assert attached.json["model"] == "small"
    assert "The total is 42 francs." in attached.body.decode()
    assert "First answer." not in attached.body.decode(), "another session"
    assert "First answer." in continued.body.decode(), "the session is continued"
