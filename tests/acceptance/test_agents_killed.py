"""A program that is killed in the middle of an answer goes on with it after its restart, and answers once."""

import signal
from pathlib import Path

import pytest

from acceptance.agents import (
    PATIENCE_MS,
    PATIENCE_S,
    answers,
    environment,
    finish,
    kill_when,
    rows,
    start,
    written,
)
from apps import heard, send
from nexus import config
from nexus.engine.owner import find_owner
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.testing import Hold, ModelRequest, ModelServer, ToolCall, Turn


def unfinished(home: Home) -> list[str]:
    found = rows(home, "runtime", "SELECT id FROM executions WHERE status IN ('queued', 'running')")
    return [str(row[0]) for row in found]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_killed_while_the_model_speaks(home: Home, server: ModelServer, wire: str) -> None:
    env = environment(server, wire)
    server.script(Turn("Once upon a time there was " * 20, faults=[Hold(gate="half", after_deltas=3)]))
    server.script("The whole story.")
    first = start(home, env, "run", "--session", "main", "Tell me a story")
    kill_when(server, first, lambda: server.gate("half").waiting)
    again = finish(home, env, "chat")
    assert again.stdout == "The whole story.\n", again.stderr
    assert answers(home) == ["The whole story."]
    assert unfinished(home) == []
    assert len(server.exchanges) == 2
    billed = rows(home, "runtime", "SELECT estimated, output_tokens FROM usage ORDER BY id")
    assert [row[0] for row in billed] == [1, 0], "what was asked before the kill is on the bill, too"
    assert billed[1][1] == server.exchanges[1].answer.usage.output_tokens
    assert rows(home, "runtime", "SELECT count(*) FROM reservations") == [(0,)]
    assert "Of these, 1 call estimated" in finish(home, env, "usage").stdout


def test_killed_between_a_tools_effect_and_its_record(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    env = environment(server, NEXUS_TOOLS_DIRECTORIES=f"{desk}:rw")
    count = ToolCall("bash", {"command": "echo once >> count.txt; sleep 600"})
    server.script(
        Turn("", [ToolCall("bash", {"command": "echo before >> earlier.txt"})]),
        Turn("", [count]),
        lambda request: Turn(f"I was told: {request.tool_results[-1]}"),
    )
    first = start(home, env, "run", "--session", "main", "Count")
    kill_when(server, first, (desk / "count.txt").exists)
    again = finish(home, env, "chat")
    assert "interrupted by a restart" in again.stdout, again.stderr
    assert written(desk / "count.txt") == "once\n", "an effect that may have happened is not made again"
    assert written(desk / "earlier.txt") == "before\n", "a recorded step is not repeated"
    assert len(server.exchanges) == 3, "recorded answers of the model are not asked for again"
    assert len(answers(home)) == 1
    assert unfinished(home) == []


def test_killed_between_two_workers(home: Home, server: ModelServer) -> None:
    env = environment(server)

    def is_managers(request: ModelRequest) -> bool:
        return "Plan the trip" in str(request.json)

    server.when(is_managers).script(
        Turn("", [send("dispatch", text="Find a train"), send("dispatch", text="Find a room")]),
        Turn("", [send("wait")]),
        heard,
    )
    server.when(last_user="Find a train").script("The 9:15")
    room = server.when(last_user="Find a room").script(Turn("Room 7", faults=[Hold(gate="room")]))
    first = start(home, env, "run", "--session", "main", "Plan the trip")

    def one_is_done_and_one_is_not() -> bool:
        done = rows(home, "runtime", "SELECT count(*) FROM dispatches WHERE status = 'done'")[0][0]
        return bool(server.gate("room").waiting) and done == 1

    kill_when(server, first, one_is_done_and_one_is_not)
    room.script("Room 7")
    again = finish(home, env, "chat")
    server.wait_until(lambda: len(server.exchanges) == 6, PATIENCE_MS)
    assert again.stdout.count("<worker_result") == 2, again.stderr
    assert "The 9:15" in again.stdout
    assert "Room 7" in again.stdout
    asked = [exchange.request.last_user for exchange in server.exchanges]
    assert sum("Find a train" in text for text in asked) == 1, "a worker that is done is not repeated"
    assert len(answers(home)) == 1, "the manager answers once"
    assert rows(home, "runtime", "SELECT count(*) FROM dispatches") == [(2,)]
    assert unfinished(home) == []


def test_frozen_in_an_answer_as_a_laptop_that_sleeps(home: Home, server: ModelServer) -> None:
    server.script(Turn("Good night.", faults=[Hold(gate="half", after_deltas=1)]))
    env = environment(server)
    process = start(home, env, "run", "--session", "main", "Sleep well")
    try:
        server.wait_until(lambda: server.gate("half").waiting, PATIENCE_MS)
        process.send_signal(signal.SIGSTOP)
        # Nobody takes its work meanwhile: it goes on with the same answer.
        owner = find_owner(Settings.of_home(home, config.load(home.config_file).engine))
        assert owner is not None
        assert owner.pid == process.pid
        process.send_signal(signal.SIGCONT)
        server.gate("half").open()
        out, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert out.strip().endswith("Good night."), errors
    assert answers(home) == ["Good night."]
    assert unfinished(home) == []
