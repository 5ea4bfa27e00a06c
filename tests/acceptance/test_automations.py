"""Automations, as a person uses them: registered with the real program, fired by real messages."""

import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import nexus.roles.bundled
from acceptance.agents import PATIENCE_S, environment, finish, rows, until
from acceptance.program import start_program
from apps import dispatching
from migration.old_hooks import OLD_ROWS, old_database
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer
from unit.automations.test_registration import install_plugin


def register(home: Home, folder: Path, name: str, source: str, *options: str) -> None:
    """Write a script and register it."""
    file = folder / f"{name}.py"
    file.write_text(source)
    done = finish(home, environment(None), "automations", "register", str(file), *options)
    assert done.returncode == 0, done.stderr


def logs(home: Home, name: str) -> list[dict[str, Any]]:
    done = finish(home, environment(None), "automations", "logs", name, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def say(home: Home, server: ModelServer, text: str, **more: str) -> subprocess.CompletedProcess[str]:
    done = finish(home, environment(server, **more), "run", "--session", "main", text)
    assert done.returncode == 0, done.stderr
    return done


def _about_a_worker(request: ModelRequest) -> bool:
    return "Plan the trip" in str(request.json)


def test_hooks_fire_with_workspaces_and_peers_and_memory_reaches_the_worker(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    """After an agent's turn; before a worker's; with their own files and each other's."""
    register(
        home,
        tmp_path,
        "hello",
        "def run(ctx):\n    print('hello', ctx.result.response.content)\n",
        *("--hook-point", "after:runAgent", "--async"),
    )
    register(
        home,
        tmp_path,
        "reader",
        "def run(ctx):\n"
        "    ctx.workspace.peers['writer'].write_file('NOTES_FOR_WRITER.md', 'from ' + ctx.workspace.role)\n"
        "    return {'fire': True, 'blocking': True, 'enrich': {'memories': 'Ada hates early trains'}}\n",
        *("--hook-point", "worker:pre_execution", "--blocking", "--workspace"),
        *("--timeout", "10000", "--description", "Reads."),
    )
    register(
        home,
        tmp_path,
        "writer",
        "def run(ctx):\n"
        "    theirs = ctx.workspace.peers['reader'].read_file('ROLE.md')\n"
        "    return {'enrich': {'role of the reader': theirs}}\n",
        *("--hook-point", "after:deliverResponse", "--workspace", "--peer", "reader"),
    )
    # A peer must be there: the first of two that know each other is told of the second afterwards.
    done = finish(home, environment(None), "automations", "register", "reader", "--peer", "writer")
    assert done.returncode == 0, done.stderr
    server.when(_about_a_worker).script(*dispatching("Find a train", then="All planned"))
    server.when(last_user="Find a train").script("At nine")

    assert say(home, server, "Plan the trip").stdout == "All planned\n"

    wanted = "<memory_context>\nAda hates early trains\n</memory_context>\n\nFind a train"
    assert [each for each in server.exchanges if wanted in each.request.last_user]
    for name in ("reader", "writer"):
        place = home.meeseeks / name
        assert {"ROLE.md", "SKILLS.md", "PATTERNS.md", "ERRORS.md", "skills"} <= {
            p.name for p in place.iterdir()
        }
    note = home.meeseeks / "writer" / "NOTES_FOR_WRITER.md"
    assert note.read_text() == "from # reader\n\nReads.\n"
    (written,) = logs(home, "writer")
    assert written["result"] == {"enrich": {"role of the reader": "# reader\n\nReads.\n"}}
    said = [each["output"] for each in logs(home, "hello")]
    assert sorted(said) == ["hello All planned\n", "hello At nine\n"]
    history = finish(home, environment(None), "automations", "history", "writer")
    assert "workspace" in history.stdout


_LEARNER = """
async def run(ctx):
    label = f"meeseeks:{ctx.automation.name}:{ctx.request.agent.session_label}"
    task = "Extract: " + ctx.result.response.content
    assembled = await ctx.assemble_context(session_label=label, task=task)
    result = await (await ctx.start_execution(assembled)).result()
    print(result.response.content)
"""


def test_a_writer_learns_and_its_turns_follow_each_other(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    """Two rapid turns: the second writer waits behind the first; what it learned is shown and approved."""
    register(
        home,
        tmp_path,
        "note-taker",
        _LEARNER,
        *("--hook-point", "after:runAgent", "--async", "--workspace", "--self-improvement"),
    )
    lesson = json.dumps({"edits": [{"file": "SKILLS.md", "content": "# Skills\n- Note names first.\n"}]})
    server.when(lambda r: "look back at it" in r.last_user).script(lesson)
    server.when(last_user="Extract: ").script("one", "two")
    server.when(last_user="First").script("Answer one")
    server.when(last_user="Second").script("Answer two")

    with chatting(home, server) as chat:
        chat.write("First\nSecond\n")
        chat.flush()
        learned = home.meeseeks / "note-taker" / "SKILLS.md"
        until(lambda: len(server.exchanges) == 5)  # it reflects once a day
        until(lambda: list((home.state / "lessons" / "note-taker").glob("les_*.json")))
        until(lambda: not rows(home, "runtime", "SELECT 1 FROM invocations WHERE status <> 'done'"))

    label = "meeseeks:note-taker:main"
    query = f"SELECT started_at, ended_at, status FROM executions WHERE session_label = '{label}' ORDER BY id"
    first, second = rows(home, "runtime", query)
    assert (first[2], second[2]) == ("done", "done")
    assert first[1] <= second[0], "the second began after the first had ended"
    assert [each["status"] for each in logs(home, "note-taker")] == ["done", "done"]
    review = ("automations", "lessons", "note-taker")
    assert learned.read_text() == "# Skills\n"
    assert (
        "waiting for approval" in finish(home, environment(None), "automations", "show", "note-taker").stdout
    )
    shown = finish(home, environment(None), *review).stdout
    assert "+- Note names first." in shown
    approved = finish(home, environment(None), *review, "--approve", shown.split()[0])
    assert approved.stdout == "Approved: note-taker changed SKILLS.md.\n", approved.stderr
    assert "No lessons" in finish(home, environment(None), *review).stdout
    assert learned.read_text() == "# Skills\n- Note names first.\n"


@contextmanager
def chatting(home: Home, server: ModelServer, **more: str) -> Generator[IO[str]]:
    """A chat that stays open; what is written is said in it."""
    words, quiet = ("--home", str(home.root), "chat"), subprocess.DEVNULL
    env = environment(server, **more)
    process = start_program(*words, env=env, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    assert process.stdin is not None
    try:
        yield process.stdin
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_old_hooks_folders_and_plugins_are_listed_and_fire(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    (home.scripts / "old.py").write_text("def run(ctx):\n    return {'enrich': {'old': 1}}\n")
    row = list(OLD_ROWS[0])
    row[0], row[1], row[5], row[6], row[13] = "h9", "old", "~/.nexus/state/hooks/scripts/old.py", None, None
    old_database(home.ledger("runtime"), [tuple(row)])
    assert finish(home, environment(None), "init").returncode == 0
    folder = home.state / "hooks" / "folder"
    folder.mkdir()
    (folder / "HOOK.md").write_text("---\nname: folder\nevents: [runAutomations]\n---\n")
    handler = folder / "handler"
    handler.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"enrich": {"folder": 1}}\'\n')
    handler.chmod(0o755)
    install_plugin(tmp_path / "site")
    path = {"PYTHONPATH": str(tmp_path / "site")}

    listed = finish(home, environment(None, **path), "automations", "list", "--json")
    bundled = {each.name for each in nexus.roles.bundled.bundled_plugins()}
    found = {each["name"]: each["state"] for each in json.loads(listed.stdout)}
    states = {name: state for name, state in found.items() if name not in bundled}
    assert states == {"old": "active", "folder": "active", "tea-plugin": "active"}
    assert bundled <= found.keys()
    server.script("Hello")
    say(home, server, "Hi", **path)
    for name in states:
        (ran,) = logs(home, name)
        assert ran["status"] == "done", ran
    enriched = rows(home, "runtime", "SELECT enrichment_json FROM requests")
    assert json.loads(str(enriched[0][0])) == {"old": 1, "folder": 1, "plugin": "greets"}


def test_a_hook_can_be_developed_against_yesterdays_messages(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    """It is replayed against what was recorded, in a sandbox that keeps nothing of what it does."""
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap on this machine")
    server.script("Hello")
    say(home, server, "Where is the tea?")
    mark = tmp_path / "mark"
    source = (
        "from pathlib import Path\n"
        "def run(ctx):\n"
        "    try:\n"
        f"        Path({str(mark)!r}).write_text('was here')\n"
        "    except OSError as error:\n"
        "        print('refused:', error.strerror)\n"
        "    ctx.workspace.write_file('SKILLS.md', 'forgotten again')\n"
        "    return {'enrich': {'asked': ctx.request.event.content}}\n"
    )
    register(home, tmp_path, "tried", source, "--workspace")
    before = (home.meeseeks / "tried" / "SKILLS.md").read_text()
    done = finish(home, environment(None), "automations", "replay", "tried", "--json")
    assert done.returncode == 0, done.stderr
    (again,) = json.loads(done.stdout)
    assert (again["status"], again["value"]) == ("done", {"enrich": {"asked": "Where is the tea?"}}), again
    assert not mark.exists()
    assert (home.meeseeks / "tried" / "SKILLS.md").read_text() == before
    assert logs(home, "tried") == []
