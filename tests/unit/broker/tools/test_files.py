"""The file tools, through the sandbox that they really run in."""

import difflib
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nexus.broker.tools import SANDBOXED, Context, Grant, Limits, Preview, Sandbox, Tool
from nexus.errors import ToolError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

BASH, READ, WRITE, EDIT = SANDBOXED
SECRET = "the-secret-outside"


def context_of(root: Path) -> Context:
    """`writable` and `readonly` are granted, `outside` is not; links in `writable` lead out."""
    grants = (Grant(path=root / "writable", writable=True), Grant(path=root / "readonly"))
    for name in ("writable/deep/er", "readonly", "outside"):
        (root / name).mkdir(parents=True)
    (root / "outside" / "secret").write_text(SECRET)
    (root / "readonly" / "kept").write_text("kept")
    (root / "writable" / "link").symlink_to(root / "outside" / "secret")
    (root / "writable" / "out").symlink_to(root / "outside")
    (root / "writable" / "deep" / "up").symlink_to("../..")
    sandbox = Sandbox(grants=grants, limits=Limits(timeout_ms=60_000))
    return Context(sandbox=sandbox, directory=root / "writable")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return context_of(tmp_path.resolve())


async def test_written_text_is_read_back_with_line_numbers(context: Context) -> None:
    told = await WRITE.call({"path": "new/notes.md", "content": "one\ntwo\n\nfour"}, context)

    assert "13 bytes" in told
    assert (context.directory / "new" / "notes.md").read_bytes() == b"one\ntwo\n\nfour"
    assert (
        await READ.call({"path": "new/notes.md"}, context)
        == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    )


async def test_a_part_can_be_read(context: Context) -> None:
    (context.directory / "long").write_text("".join(f"line {n}\n" for n in range(1, 5_001)))

    told = await READ.call({"path": "long", "first_line": 4_000, "lines": 2}, context)
    whole = await READ.call({"path": "long"}, context)
    past = await READ.call({"path": "long", "first_line": 9_000}, context)

    assert told.splitlines()[:2] == ["  4000\tline 4000", "  4001\tline 4001"]
    assert "first_line 4002" in told
    assert "first_line 2001" in whole
    assert past == "[the file has no such line]"


async def test_a_line_too_long_to_show_is_cut(context: Context) -> None:
    (context.directory / "wide").write_text("x" * 3_000_000)

    told = await READ.call({"path": "wide"}, context)

    assert len(told) < 300_000
    assert "cut in the midst of line 1" in told


async def test_a_write_keeps_the_mode_and_follows_a_link_inside(context: Context) -> None:
    script = context.directory / "script.sh"
    script.write_text("old")
    script.chmod(0o750)
    (context.directory / "alias").symlink_to("script.sh")

    await WRITE.call({"path": "alias", "content": "new"}, context)

    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o750)
    assert (context.directory / "alias").is_symlink()


async def test_an_edit_changes_one_passage_and_nothing_else(context: Context) -> None:
    (context.directory / "code.py").write_bytes(b"a = 1\r\nb = 2\nc = \xc3\xa9\n")

    told = await EDIT.call({"path": "code.py", "old": "b = 2", "new": "b = 3"}, context)

    assert told == "Edited code.py at line 2."
    assert (context.directory / "code.py").read_bytes() == b"a = 1\r\nb = 3\nc = \xc3\xa9\n"
    assert sorted(path.name for path in context.directory.iterdir()) == ["code.py", "deep", "link", "out"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (READ, {"path": "missing"}, "does not exist, or is outside"),
        (READ, {"path": "deep"}, "not a regular file"),
        (READ, {"path": "link"}, "does not exist, or is outside"),
        (READ, {"path": "/etc/shadow"}, "does not exist, or is outside"),
        (READ, {"path": "/dev/zero"}, "not a regular file"),
        (WRITE, {"path": "deep", "content": ""}, "not a regular file"),
        (WRITE, {"path": "../readonly/kept", "content": ""}, "Read-only file system"),
        (WRITE, {"path": "/usr/new", "content": ""}, "Read-only file system"),
        (WRITE, {"path": "/new", "content": ""}, "Read-only file system"),
        (WRITE, {"path": "/tmp/new", "content": ""}, "would not be kept"),
        (WRITE, {"path": "out/new", "content": ""}, "out/new"),
        (EDIT, {"path": "../readonly/kept", "old": "kept", "new": "lost"}, "Read-only file system"),
        (EDIT, {"path": "missing", "old": "a", "new": "b"}, "does not exist"),
    ],
)
async def test_a_refusal_says_why(
    context: Context, tool: Tool, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await tool.call(arguments, context)


async def test_an_edit_refuses_what_is_not_text_or_too_large(context: Context) -> None:
    (context.directory / "binary").write_bytes(b"\xff\xfe\x00")
    (context.directory / "large").write_bytes(b"x" * 600_000)

    for name, message in (("binary", "not UTF-8"), ("large", "larger than")):
        with pytest.raises(ToolError, match=message):
            await EDIT.call({"path": name, "old": "x", "new": "y"}, context)


async def test_the_bash_tool_tells_output_errors_and_the_exit_code(context: Context) -> None:
    told = await BASH.call({"command": "pwd; echo oh >&2; exit 3"}, context)

    assert told == f"{context.directory}\n[standard error]\noh\n[exit code 3]"
    assert await BASH.call({"command": "true"}, context) == "[no output]"


async def test_the_bash_tool_tells_which_limit_ended_it(context: Context) -> None:
    late = await BASH.call({"command": "echo begun; sleep 60", "timeout_ms": 5_000}, context)
    loud = await BASH.call({"command": "yes"}, context)

    assert late == "begun\n[ended: it took longer than 5000 ms]"
    assert "printed more than 1048576 bytes" in loud
    assert len(loud) < 40_000


async def test_the_bash_tool_refuses_a_command_too_long_to_pass(context: Context) -> None:
    with pytest.raises(ToolError, match="longer than"):
        await BASH.call({"command": "#" * 200_000}, context)


NAMES = [
    "..",
    ".",
    "",
    "writable",
    "readonly",
    "outside",
    "secret",
    "kept",
    "link",
    "out",
    "up",
    "deep",
    "er",
]
PIECES = st.sampled_from([*NAMES, "-", "~", "$HOME", "`id`", "a\nb"]) | st.text(max_size=6)
STARTS = st.sampled_from(["", "/", "ROOT/", "ROOT/writable/", "/proc/self/root/ROOT/", "/proc/self/cwd/"])


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return context_of(tmp_path_factory.mktemp("fuzz").resolve())


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(start=STARTS, pieces=st.lists(PIECES, max_size=7), text=st.text(max_size=20))
@example(start="", pieces=["link"], text="x")
@example(start="", pieces=["out", "secret"], text="x")
@example(start="", pieces=["deep", "up", "outside", "secret"], text="x")
@example(start="ROOT/", pieces=["readonly", "kept"], text="x")
@example(start="ROOT/", pieces=["outside", "new"], text="x")
@example(start="", pieces=["-"], text="x")
@example(start="", pieces=["-rf"], text="x")
@example(start="", pieces=["name\n"], text="x\r\n")
async def test_no_path_leads_outside(fuzzed: Context, start: str, pieces: list[str], text: str) -> None:
    root = fuzzed.directory.parent
    path = (start + "/".join(pieces)).replace("ROOT", str(root))
    content = f"{text}{uuid.uuid4()}"

    written = await attempt(WRITE, {"path": path, "content": content}, fuzzed)
    found = await attempt(READ, {"path": path}, fuzzed)
    await attempt(EDIT, {"path": path, "old": SECRET, "new": "changed"}, fuzzed)

    assert {entry.name: entry.read_text() for entry in (root / "outside").iterdir()} == {"secret": SECRET}
    assert {entry.name: entry.read_text() for entry in (root / "readonly").iterdir()} == {"kept": "kept"}
    assert sorted(entry.name for entry in root.iterdir()) == ["outside", "readonly", "writable"]
    assert SECRET not in (found or "")
    if written:
        files = [file for file in fuzzed.directory.rglob("*") if file.is_file() and not file.is_symlink()]
        assert [file.read_bytes() for file in files].count(content.encode()) == 1


async def attempt(tool: Tool, arguments: dict[str, str], context: Context) -> str | None:
    try:
        return await tool.call(arguments, context)
    except ToolError:
        return None


async def _preview(tool: Tool, context: Context, **given: str) -> Preview:
    assert tool.preview is not None
    return await tool.preview(given, context)


async def test_a_file_that_cannot_be_shown_does_not_look_new(context: Context) -> None:
    (context.directory / "large").write_bytes(b"x" * (512 * 1024 + 1))
    (context.directory / "binary").write_bytes(b"\xff\xfe")

    large = await _preview(WRITE, context, path="large", content="")
    binary = await _preview(WRITE, context, path="binary", content="\ufffd\ufffd")
    new = await _preview(WRITE, context, path="new", content="")

    assert large.text == "Replaces an existing file that can't be shown: it is larger than 524,288 bytes."
    assert binary.text == "Replaces an existing file that can't be shown: it isn't UTF-8 text."
    assert new.text == ""
    assert len({large.state, binary.state, new.state}) == 3


@pytest.mark.parametrize("changed", ["content", "made", "link", "large"])
async def test_only_the_file_that_was_shown_is_changed(context: Context, changed: str) -> None:
    """Not one with other content, nor one that appeared, nor the same text at the end of another link."""
    size = 600 * 1024 if changed == "large" else 1
    for name in ("one", "two"):
        (context.directory / name).write_text("a" * size)
    path = "new" if changed == "made" else "to"
    if changed != "made":
        (context.directory / path).symlink_to("one")
    shown = await _preview(WRITE, context, path=path, content="b")
    expecting = replace(context, expected=shown.state)
    if changed == "link":
        (context.directory / path).unlink()
        (context.directory / path).symlink_to("two")
    else:
        (context.directory / path).write_text("c" * size)
    before = (context.directory / path).read_text()

    with pytest.raises(ToolError, match="changed meanwhile"):
        await WRITE.call({"path": path, "content": "b"}, expecting)
    if changed != "large":
        with pytest.raises(ToolError, match="changed meanwhile"):
            await EDIT.call({"path": path, "old": before, "new": "b"}, expecting)

    assert (context.directory / path).read_text() == before
    again = await _preview(WRITE, context, path=path, content="b")
    await WRITE.call({"path": path, "content": "b"}, replace(context, expected=again.state))
    assert (context.directory / path).read_text() == "b"


async def test_an_edit_that_fails_is_tied_to_the_file_it_fails_on(context: Context) -> None:
    (context.directory / "notes").write_text("one")
    edit = {"path": "notes", "old": "two", "new": "three"}
    shown = await _preview(EDIT, context, **edit)
    assert "fails" in shown.text
    (context.directory / "notes").write_text("one two")
    with pytest.raises(ToolError, match="changed meanwhile"):
        await EDIT.call(edit, replace(context, expected=shown.state))


async def test_a_diff_of_repeating_lines_compares_few_of_them(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """58 kB of them held the event loop for ten seconds."""
    compared: list[int] = []

    class Counting(difflib.SequenceMatcher[str]):
        def set_seqs(self, a: Sequence[str], b: Sequence[str]) -> None:
            compared.append(len(a) * len(b))
            super().set_seqs(a, b)

    monkeypatch.setattr(difflib, "SequenceMatcher", Counting)
    lines = ["a", "b"] * 14_500
    (context.directory / "log").write_text("\n".join(lines))
    written = await _preview(WRITE, context, path="log", content="\n".join(reversed(lines)))
    assert written.text.count("\n-") == written.text.count("\n+") - 1 == len(lines)

    (context.directory / "log").write_text("\n".join([*lines, "here", *lines]))
    edited = await _preview(EDIT, context, path="log", old="here", new="there")
    assert edited.text.split("\n")[2:] == [
        "@@ -28998,7 +28998,7 @@", " b", " a", " b", "-here", "+there", " a", " b", " a"
    ]  # fmt: skip
    assert sum(compared) <= 20_000
