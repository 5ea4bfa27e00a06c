"""The memory skill as an agent uses it: the scripts typed in a shell, on a home that runs or does not."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from acceptance.program import NEXUS, nexus, start_program
from acceptance.running import Served, Workspace, serving
from acceptance.test_specification import WRITE, check_written
from new_homes import new_home
from nexus.home import Home

ODD = (
    'it\'s "quoted" and `ticked`',
    "$(touch planted) ${HOME} \\n \\0 %s %d !history *",
    "two\nlines\n\tand a tab",
    "Grüße an 张伟 🌱 \u202e ﷺ",
    "--fact",
    "-",
    "a=b&c=d@e#f?g",
    "@/etc/passwd",
    '{"operation": "fact"}',
    "x" * 100_000,
)


def made(root: Path) -> Home:
    return new_home(root)


@pytest.fixture
def workspace(home: Home, tmp_path: Path) -> Workspace:
    """A workspace of a home that does not run."""
    return Workspace(home, tmp_path / "workspace")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace of a home that runs. Starting one takes a while, so several tests share it."""
    folder = tmp_path_factory.mktemp("live")
    home = made(folder / "home")
    with serving(home):
        yield Workspace(home, folder / "workspace")


def test_the_specified_examples_work_as_written_on_a_running_home(live: Workspace) -> None:
    done = live.typed(WRITE)
    assert (done.returncode, done.stderr) == (0, "")
    check_written(live, *(json.loads(line)["id"] for line in done.stdout.splitlines()))
    answer = answered(live, "where does Sarah work?", "Sarah works at Anthropic")
    assert answer["results"][0]["found_by"]
    assert answer["entities"][0]["matched"] == "Sarah Chen"


def answered(live: Workspace, question: str, wanted: str) -> dict[str, Any]:
    """The answer in which the wanted text comes first: once it is embedded, it does."""
    deadline = time.monotonic() + 60
    while True:
        found = live.run("cortex-search.sh", question, "--scope", "entities,facts", "--json")
        answer = json.loads(found.stdout)
        texts = [result["text"] for result in answer["results"]]
        if texts[:1] == [wanted]:
            return answer
        assert time.monotonic() < deadline, texts
        time.sleep(0.2)


def only_python(folder: Path) -> str:
    """A PATH with what the scripts need, and without curl."""
    folder.mkdir()
    python = shutil.which("python3")
    assert python
    # A shim of a version manager would look for its own tools on the PATH.
    real = subprocess.run([python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    (folder / "python3").symlink_to(real.stdout.strip())
    return str(folder)


def test_any_text_arrives_as_it_was_given(live: Workspace, tmp_path: Path) -> None:
    for path in ("", only_python(tmp_path / "bin")):
        for text in ODD:
            done = live.run("memory-write.sh", "fact", "--about", "odd", "--fact", text, path=path)
            assert (done.returncode, done.stderr) == (0, "")

    rows = live.sql("SELECT fact FROM facts WHERE source_entity_id = 'odd' ORDER BY seq")
    assert [row["fact"] for row in rows] == [*ODD, *ODD]
    assert not (live.skill / "planted").exists()


def test_any_text_arrives_as_it_was_given_where_nothing_runs(workspace: Workspace) -> None:
    for text in ODD[:3]:
        assert workspace.run("memory-write.sh", "fact", f"--fact={text}").returncode == 0

    assert [row["fact"] for row in workspace.sql("SELECT fact FROM facts ORDER BY seq")] == [*ODD[:3]]


def test_a_mental_model_is_saved_and_shown_on_a_home_that_runs_or_does_not(
    live: Workspace, workspace: Workspace
) -> None:
    for place in (live, workspace):
        fact = place.write("fact", "--fact", "Sarah moves deadlines")["id"]
        name, content = 'Sarah\'s "deadlines"', f"Sarah moves deadlines [{fact}]."
        saved = place.write("mental-model", "--name", name, "--content", content)
        assert (saved["version"], saved["sources"]) == (1, [fact])
        [listed] = json.loads(place.run("memory-models.sh", "--limit", "5").stdout)
        shown = json.loads(place.run("memory-models.sh", name).stdout)
        assert listed["id"] == shown["id"] == saved["id"]
        assert (shown["content"], [each["id"] for each in shown["sources"]]) == (content, [fact])
        assert json.loads(place.run("memory-models.sh", "--stale").stdout) == []
        unknown = place.run("memory-models.sh", "Nobody")
        assert (unknown.returncode, unknown.stdout) == (2, "")
        assert "Unknown mental model 'Nobody'" in unknown.stderr


WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "Say what to write"),
    "unknown operation": (["fakt", "--fact", "x"], "'fakt'"),
    "unknown flag": (["fact", "--fact", "x", "--abuot", "y"], "abuot"),
    "missing": (["fact", "--about", "sarah"], "needs `fact`"),
    "no value": (["fact", "--fact"], "`--fact` needs a value"),
    "bare": (["fact", "hello"], "'hello' belongs to no flag"),
    "not a number": (["fact", "--fact", "x", "--confidence", "high"], "0 to 1"),
    "not a time": (["fact", "--fact", "x", "--as-of", "yesterday"], "as_of"),
    "no source": (["mental-model", "--name", "x", "--content", "Sarah moves"], "cites no fact"),
    "unknown entity": (["fact", "--fact", "x", "--about", "Nobody Known"], "Nobody Known"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_are_told_with_an_example(live: Workspace, wrong: str) -> None:
    arguments, complaint = WRONG[wrong]
    before = live.sql("SELECT count(*) AS n FROM facts")

    done = live.run("memory-write.sh", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "memory-write.sh" in done.stderr
    assert live.sql("SELECT count(*) AS n FROM facts") == before


def test_a_wrong_batch_writes_nothing_of_it(live: Workspace) -> None:
    half = '{"operation": "fact", "about": "half", "fact": "kept?"}\n{"fact"'
    done = live.run("memory-write.sh", "batch", stdin=half)

    assert (done.returncode, done.stdout) == (2, "")
    assert "memory-write.sh batch" in done.stderr
    assert live.sql("SELECT 1 FROM facts WHERE source_entity_id = 'half'") == []


def test_a_wrong_question_is_told_with_an_example(live: Workspace) -> None:
    for arguments in (
        ["tea", "--scope", "everything"],
        [],
        ["tea", "--limit", "0"],
        ["tea", "--colour", "x"],
    ):
        done = live.run("memory-search.sh", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "memory-search.sh" in done.stderr


def test_wrong_arguments_are_told_where_nothing_runs(workspace: Workspace) -> None:
    for script, arguments in (("memory-write.sh", ["fact", "--fact"]), ("memory-search.sh", [])):
        done = workspace.run(script, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert script in done.stderr


def test_four_agents_writing_at_once_lose_nothing(live: Workspace) -> None:
    def agent(name: int) -> list[str]:
        single = [
            live.write("fact", "--about", "shared", "--fact", f"agent {name} says {number}")["id"]
            for number in range(15)
        ]
        lines = [
            json.dumps({"operation": "fact", "about": "shared", "fact": f"agent {name} lists {number}"})
            for number in range(500)
        ]
        many = live.write("batch", stdin="\n".join(lines))
        return single + [result["id"] for result in many["results"]]

    with ThreadPoolExecutor(4) as agents:
        acknowledged = [id_ for ids in agents.map(agent, range(4)) for id_ in ids]

    rows = live.sql("SELECT id, fact FROM facts WHERE source_entity_id = 'shared'")
    assert {row["id"] for row in rows} == set(acknowledged)
    assert len({row["fact"] for row in rows}) == len(acknowledged) == 4 * 515


def test_a_home_is_run_once(live: Workspace) -> None:
    done = nexus(live.home.root, "up")

    assert done.returncode == 1
    assert "is already served" in done.stderr
    assert live.write("fact", "--fact", "The first one goes on")["ok"]


def test_a_killed_home_leaves_scripts_that_work(workspace: Workspace, home: Home) -> None:
    served = Served(home)
    first = workspace.write("fact", "--fact", "one")["id"]
    served.kill()
    assert Path(served.told["socket"]).is_socket()
    second = workspace.write("fact", "--fact", "two")["id"]
    third = workspace.write("batch", stdin='{"operation": "fact", "fact": "three"}\n')["results"][0]["id"]
    with serving(home):
        fourth = workspace.write("fact", "--fact", "four")["id"]

    rows = workspace.sql("SELECT id FROM facts ORDER BY seq")
    assert [row["id"] for row in rows] == [first, second, third, fourth]


def test_stopping_says_so_and_leaves_no_socket(home: Home) -> None:
    process = start_program("--home", str(home.root), "up", "--port", "0", stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    while lines[-1] and not lines[-1].startswith("Press Ctrl-C"):
        lines.append(process.stdout.readline())
    assert lines[0] == f"Nexus is running at {home.root} (pid {process.pid}).\n"
    (told,) = [line for line in lines if line.strip().startswith("socket ")]
    socket = Path(told.split()[-1])
    assert (socket.stat().st_mode & 0o777, socket.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    assert (process.returncode, rest, socket.exists()) == (
        0,
        "Stopping: running work is finished or requeued. Press Ctrl-C again to stop immediately.\n",
        False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an address can be only so long")
def test_a_home_at_a_long_path_has_its_socket(tmp_path: Path) -> None:
    home = made(tmp_path / ("long" * 30) / "it's a home")
    workspace = Workspace(home, tmp_path / "workspace")
    # Without the program there is only the socket.
    paths = workspace.skill / "DB_PATHS"
    paths.write_text(paths.read_text().replace(str(NEXUS), "/nowhere"))
    path = only_python(tmp_path / "bin")
    with serving(home):
        assert workspace.write("fact", "--fact", "far away")["ok"]
        assert workspace.run("memory-write.sh", "fact", "--fact", "x", path=path).returncode == 0

    assert workspace.sql("SELECT fact FROM facts") == [{"fact": "far away"}, {"fact": "x"}]
    done = workspace.run("memory-write.sh", "fact", "--fact", "x", path=path)
    assert done.returncode == 1
    assert f"The home at {home.root} is not running" in done.stderr
