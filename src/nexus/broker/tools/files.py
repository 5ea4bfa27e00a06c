"""The tools that run in the sandbox: `bash`, and `read`, `write`, `edit` and `send_file` as small scripts.

Nothing in this process opens a path that an agent named: the mounts alone decide what it reaches.
"""

import asyncio
import difflib
import hashlib
import json
import mimetypes
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any, Final, NoReturn, cast

from nexus import attachments
from nexus.attachments import Attachment
from nexus.broker.tools.sandbox import Limits, Outcome, Reason, Sandbox
from nexus.broker.tools.tool import Arguments, Context, Preview, Tool, clip, parameters
from nexus.config import AttachmentsConfig
from nexus.errors import ToolError
from nexus.home import Home

_MOST_LINES_COMPARED = 5_000
_COMPARED_CHARACTERS = 160
_SHOWN_LINES = 8
_SHOWN_CHARACTERS = 1_000
_READ_BYTES: Final = 256 * 1024
_READ_LINES: Final = 2_000
_EDIT_BYTES: Final = 512 * 1024
_DIFF_CONTEXT: Final = 3
_DIFF_PAIRS: Final = 20_000
"""How many pairs of lines are compared for a diff: time grows faster than their number."""

_MISSING, _NOT_A_FILE, _UNREADABLE, _TOO_LARGE, _CHANGED, _NOT_KEPT = 40, 41, 42, 43, 44, 45

_CHECK = f"""
[ -e "$1" ] || exit {_MISSING}
[ -f "$1" ] || exit {_NOT_A_FILE}
[ -r "$1" ] || exit {_UNREADABLE}
"""
# $1 the path, $2 the first line, $3 how many lines, $4 how many bytes
_READ_SCRIPT = f"""{_CHECK}
tail -n "+$2" -- "$1" | head -n "$3" | head -c "$4"
"""
# $1 the path, $2 the most bytes
_WHOLE_SCRIPT = f"""{_CHECK}
[ "$(stat -Lc %s -- "$1")" -le "$2" ] || exit {_TOO_LARGE}
cat -- "$1"
"""
# A link is followed. The state of a file is where it is, whether it exists and what it contains.
_STATE = """
file=$(realpath -m -- "$1" && printf x) || exit 1
file=${file%??}
state() {
  if [ -e "$file" ]; then printf '+%s\\0' "$file"; cat -- "$file"; else printf -- '-%s\\0' "$file"; fi
}
"""
# $1 the path, $2 the most bytes. Where the state can't be shown, its SHA-256 is.
_STATE_SCRIPT = f"""{_STATE}
hide() {{ state 2>/dev/null | sha256sum; exit "$1"; }}
if [ -e "$file" ]; then
  [ -f "$file" ] || hide {_NOT_A_FILE}
  [ -r "$file" ] || hide {_UNREADABLE}
  [ "$(stat -c %s -- "$file")" -le "$2" ] || hide {_TOO_LARGE}
fi
state
"""
# $1 the path, $2 the SHA-256 of the state that it must be in, or nothing, $3 a name not yet used;
# the content comes in. A rename makes the change whole or not at all.
_WRITE_SCRIPT = f"""
set -eu
umask 077
{_STATE}
[ ! -e "$file" ] || [ -f "$file" ] || exit {_NOT_A_FILE}
folder=${{file%/*}}/
[ -d "$folder" ] || mkdir -p -- "$folder"
devices=$(stat -c %d -- "$folder" /tmp /dev/shm)
set -- "$1" "$2" "$3" $devices
[ "$4" != "$5" ] && [ "$4" != "$6" ] || exit {_NOT_KEPT}
new=$folder$3
trap 'rm -f -- "$new"' EXIT
cat > "$new"
[ ! -e "$file" ] || chmod "$(printf %o $((0$(stat -c %a -- "$file") & 0777)))" -- "$new"
[ -z "$2" ] || [ "$(state | sha256sum)" = "$2  -" ] || exit {_CHANGED}
mv -fT -- "$new" "$file"
trap - EXIT
"""


def replace_passage(text: str, old: str, new: str) -> tuple[str, int]:
    """The text with its only `old` replaced, and the line where that was."""
    if not old:
        raise ToolError("`old` is empty", hint="Give the exact text to replace, or use `write`.")
    if old == new:
        raise ToolError("`old` and `new` are the same: nothing would change")
    found = _starts(text, old)
    if not found:
        raise ToolError("`old` is not in the file exactly as given", hint=_nearest(text, old))
    if len(found) > 1:
        lines = ", ".join(str(_line_of(text, start)) for start in found[:10])
        raise ToolError(
            f"`old` is in the file {len(found)} times, at lines {lines}",
            hint="Add lines before or after it, so that it is there only once.",
        )
    start = found[0]
    return text[:start] + new + text[start + len(old) :], _line_of(text, start)


def _starts(text: str, old: str) -> list[int]:
    """Where it begins, overlapping places too: replacing one of those would be a guess."""
    starts: list[int] = []
    at = text.find(old)
    while at >= 0 and len(starts) < 1_000:
        starts.append(at)
        at = text.find(old, at + 1)
    return starts


def _line_of(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1


def _nearest(text: str, old: str) -> str:
    """The lines most like the first line of `old`, as they really are."""
    if "\r\n" in text and "\r" not in old and old.replace("\n", "\r\n") in text:
        return "The file's lines end in CR LF: write \\r\\n at line ends."
    wanted = next((line for line in old.splitlines() if line.strip()), old)
    lines = text.splitlines()[:_MOST_LINES_COMPARED]
    compared = [_comparable(line) for line in lines]
    near = difflib.get_close_matches(_comparable(wanted), compared, n=1, cutoff=0.5)
    if not near:
        return "Nothing in the file is like it. Read the file again."
    at = compared.index(near[0])
    passage = "\n".join(lines[at : at + min(len(old.splitlines()), _SHOWN_LINES)])
    return f"Nearest, at line {at + 1}:\n{passage[:_SHOWN_CHARACTERS]}"


def _comparable(line: str) -> str:
    return line.strip()[:_COMPARED_CHARACTERS]


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A file as it is before a change."""

    state: str
    """SHA-256 of its state."""
    exit_code: int
    text: str | None = None
    """What it contains; None if there is no file, or nothing that can be shown."""

    @property
    def is_missing(self) -> bool:
        return self.exit_code == _MISSING

    @property
    def problem(self) -> str:
        known = {
            _NOT_A_FILE: "it isn't a regular file",
            _UNREADABLE: "it may not be read",
            _TOO_LARGE: f"it is larger than {_EDIT_BYTES:,} bytes",
        }
        return known.get(self.exit_code, "it isn't UTF-8 text")


async def _read(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    first, lines = arguments.get("first_line", 1), arguments.get("lines", _READ_LINES)
    most_bytes = min(_READ_BYTES, context.sandbox.limits.output_bytes)
    outcome = await _script(_READ_SCRIPT, [path, str(first), str(lines), str(most_bytes)], context)
    if outcome.exit_code:
        _refuse(path, outcome.exit_code, context, outcome.stderr)
    return _number_lines(
        outcome.stdout.decode(errors="replace"), first, lines, cut=len(outcome.stdout) >= most_bytes
    )


def _number_lines(text: str, first: int, lines: int, *, cut: bool) -> str:
    if not text:
        return "[the file has no such line]" if first > 1 else "[the file is empty]"
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    shown = "\n".join(f"{number:>6}\t{row}" for number, row in enumerate(rows, first))
    if cut:
        return f"{shown}\n[cut in the midst of line {first + len(rows) - 1}: it is long, use `bash`]"
    if len(rows) >= lines:
        return f"{shown}\n[perhaps more: go on with first_line {first + len(rows)}]"
    return shown


async def _write(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    data = str(arguments["content"]).encode()
    await _replace(path, data, context.expected, context)
    return f"Wrote {len(data)} bytes to {path}."


async def _preview_write(arguments: Arguments, context: Context) -> Preview:
    path: str = arguments["path"]
    found = await _find(path, context)
    if found.text is not None:
        shown = await asyncio.to_thread(_diff, path, found.text, arguments["content"])
    elif found.is_missing:
        shown = ""  # a new file: its content is all there is to see
    else:
        shown = f"Replaces an existing file that can't be shown: {found.problem}."
    return Preview(text=shown, state=found.state)


async def _edit(arguments: Arguments, context: Context) -> str:
    path: str = arguments["path"]
    found = await _find(path, context)
    if context.expected not in {"", found.state}:
        _refuse(path, _CHANGED, context)
    _, after, line = await _apply_edit(arguments, found, context)
    await _replace(path, after.encode(), found.state, context)
    return f"Edited {path} at line {line}."


async def _preview_edit(arguments: Arguments, context: Context) -> Preview:
    path: str = arguments["path"]
    found = await _find(path, context)
    try:
        before, after, _ = await _apply_edit(arguments, found, context)
    except ToolError as error:
        return Preview(text=f"This edit fails, unless the file changes: {error.message}.", state=found.state)
    return Preview(text=await asyncio.to_thread(_diff, path, before, after), state=found.state)


async def _apply_edit(arguments: Arguments, found: _Found, context: Context) -> tuple[str, str, int]:
    """The text of a file before and after an edit, and the line where it differs."""
    path: str = arguments["path"]
    if found.exit_code:
        _refuse(path, found.exit_code, context)
    if found.text is None:
        raise ToolError(f"{path} is not UTF-8 text", hint="Change it with a program, by `bash`.")
    # In a thread: looking for the nearest passage in a large file takes a while.
    edited, line = await asyncio.to_thread(replace_passage, found.text, arguments["old"], arguments["new"])
    return found.text, edited, line


async def _find(path: str, context: Context) -> _Found:
    # Room for the path, and for what the shell may say besides.
    limits = replace(context.sandbox.limits, output_bytes=_EDIT_BYTES + 65_536)
    outcome = await _script(_STATE_SCRIPT, [path, str(_EDIT_BYTES)], context, limits=limits)
    if outcome.exit_code in {_NOT_A_FILE, _UNREADABLE, _TOO_LARGE}:
        return _Found(state=outcome.stdout[:64].decode(), exit_code=outcome.exit_code)
    if outcome.exit_code:
        _refuse(path, outcome.exit_code, context, outcome.stderr)
    state = hashlib.sha256(outcome.stdout).hexdigest()
    if outcome.stdout.startswith(b"-"):
        return _Found(state=state, exit_code=_MISSING)
    try:
        text = outcome.stdout.partition(b"\0")[2].decode()
    except UnicodeDecodeError:
        return _Found(state=state, exit_code=0)
    return _Found(state=state, exit_code=0, text=text)


def _diff(path: str, before: str, after: str) -> str:
    """A unified diff. Where many lines differ, all are shown as replaced: comparing them takes too long."""
    old, new = before.split("\n"), after.split("\n")
    if old == new:
        return "(nothing changes)"
    shared = min(len(old), len(new))
    head = next((at for at in range(shared) if old[at] != new[at]), shared)
    tail = next((at for at in range(shared - head) if old[-1 - at] != new[-1 - at]), shared - head)
    # From here on, only the lines that differ and their neighbors.
    first, last = max(0, head - _DIFF_CONTEXT), max(0, tail - _DIFF_CONTEXT)
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    head, tail = head - first, tail - last
    if len(old) * len(new) <= _DIFF_PAIRS:
        groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_DIFF_CONTEXT)
    else:
        ends = len(old) - tail, len(new) - tail
        changed = ("replace", head, ends[0], head, ends[1])
        groups = [[("equal", 0, head, 0, head), changed, ("equal", ends[0], len(old), ends[1], len(new))]]
    lines = [f"--- {path}", f"+++ {path}"]
    for group in groups:
        old_from, old_to, new_from, new_to = group[0][1], group[-1][2], group[0][3], group[-1][4]
        lines.append(
            f"@@ -{first + old_from + 1},{old_to - old_from} +{first + new_from + 1},{new_to - new_from} @@"
        )
        for kind, old_at, old_end, new_at, new_end in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[old_at:old_end]]
                continue
            lines += [f"-{line}" for line in old[old_at:old_end]]
            lines += [f"+{line}" for line in new[new_at:new_end]]
    return "\n".join(lines)


async def _replace(path: str, data: bytes, expected: str, context: Context) -> None:
    if len(data) > context.sandbox.limits.file_bytes:
        raise ToolError(f"{len(data)} bytes are more than the {context.sandbox.limits.file_bytes} allowed")
    outcome = await _script(
        _WRITE_SCRIPT, [path, expected, f".nexus.{secrets.token_hex(8)}"], context, stdin=data
    )
    if outcome.exit_code:
        _refuse(path, outcome.exit_code, context, outcome.stderr)


async def contents(path: str, most_bytes: int, context: Context) -> bytes:
    """All of a file that an agent named."""
    # Room for what the shell may say besides.
    limits = replace(context.sandbox.limits, output_bytes=most_bytes + 65_536)
    outcome = await _script(_WHOLE_SCRIPT, [path, str(most_bytes)], context, limits=limits)
    if outcome.exit_code == _TOO_LARGE:
        raise ToolError(f"{path} is larger than {most_bytes:,} bytes")
    if outcome.exit_code:
        _refuse(path, outcome.exit_code, context, outcome.stderr)
    return outcome.stdout


async def _script(
    script: str,
    arguments: Sequence[str],
    context: Context,
    stdin: bytes | None = None,
    limits: Limits | None = None,
) -> Outcome:
    path, *rest = arguments
    # Programs take `-` for their standard input even after `--`.
    argv = ["sh", "-c", script, "nexus", f"./{path}" if path.startswith("-") else path, *rest]
    outcome = await context.sandbox.run(argv, stdin=stdin, directory=context.directory, limits=limits)
    if outcome.killed_by:
        raise ToolError(f"The file tool was ended by its limit on {outcome.killed_by}")
    return outcome


def _refuse(path: str, exit_code: int | None, context: Context, stderr: bytes = b"") -> NoReturn:
    """Say what a script's exit code means, and what to do."""
    granted = f"Granted: {context.granted}."
    told = stderr.decode(errors="replace").strip()[-500:] or f"exit code {exit_code}"
    known = {
        _MISSING: (f"{path} does not exist, or is outside what was granted", granted),
        _NOT_A_FILE: (f"{path} is not a regular file", "List a directory with `bash`: `ls`."),
        _UNREADABLE: (f"{path} may not be read", granted),
        _TOO_LARGE: (f"{path} is larger than {_EDIT_BYTES} bytes", "Change it with a program, by `bash`."),
        _NOT_KEPT: (f"{path} would not be kept: only granted directories are", granted),
        _CHANGED: (f"{path} was changed meanwhile", "Read it again, then edit."),
    }
    message, hint = known.get(exit_code or 0, (f"{path}: {told}", granted))
    raise ToolError(message, hint=hint)


_PATH = {"type": "string"}

READ = Tool(
    name="read",
    description="Read a text file. Each line is shown with its number and a tab.",
    parameters=parameters(
        "path",
        path=_PATH,
        first_line={"type": "integer", "minimum": 1},
        lines={"type": "integer", "minimum": 1},
    ),
    run=_read,
    repeatable=True,
)
WRITE = Tool(
    name="write",
    description="Write a whole file, creating it and its directory if needed.",
    parameters=parameters("path", "content", path=_PATH, content={"type": "string"}),
    run=_write,
    preview=_preview_write,
)
EDIT = Tool(
    name="edit",
    description="Replace a passage of a text file that occurs in it exactly once.",
    parameters=parameters(
        "path",
        "old",
        "new",
        path=_PATH,
        old={"type": "string"},
        new={"type": "string"},
    ),
    run=_edit,
    preview=_preview_edit,
)


SEND_FILE: Final = "send_file"


def send_file_tool(home: Home, config: AttachmentsConfig) -> Tool:
    """A tool that keeps a file in the home, for the answer to take along."""

    async def run(arguments: Arguments, context: Context) -> str:
        path: str = arguments["path"]
        data = await contents(path, config.max_bytes, context)
        attachment = _describe_file(PurePath(path).name, data)
        await asyncio.to_thread(attachments.keep, home, attachment, data)
        return json.dumps({"sent with your answer": asdict(attachment)})

    return Tool(
        name=SEND_FILE,
        description="Send a file along with your answer.",
        parameters=parameters("path", path={"type": "string"}),
        run=run,
        # The same file is kept once.
        repeatable=True,
    )


def list_chosen(results: Iterable[str], most: int) -> tuple[Attachment, ...]:
    """The files that calls of the tool chose, each once, in order."""
    found: dict[Attachment, None] = {}
    for result in results:
        value = cast("dict[str, Any]", json.loads(result))
        found[Attachment.from_json(value["sent with your answer"])] = None
    return tuple(found)[:most]


def _describe_file(name: str, data: bytes) -> Attachment:
    guessed, _ = mimetypes.guess_type(name)
    return Attachment(
        name=name,
        media_type=guessed or attachments.detect_type(data) or "application/octet-stream",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


# One argument of a program may have 128 KiB on Linux.
_LONGEST_COMMAND_BYTES = 120 * 1024
_OUTPUT_CHARACTERS = 30_000
_NO_LEDGERS = (
    "[this agent can't read the ledgers: search with the `recall` tool or skills/memory/memory-search.sh. "
    "The owner can let an automation's agents read them: `nexus automations register NAME --ledgers`.]"
)


async def _run_command(arguments: Arguments, context: Context) -> str:
    command: str = arguments["command"]
    if len(command.encode()) > _LONGEST_COMMAND_BYTES:
        raise ToolError(
            f"The command is longer than {_LONGEST_COMMAND_BYTES} bytes",
            hint="Write it to a file with the `write` tool, and run the file.",
        )
    limits = context.sandbox.limits
    timeout_ms = min(arguments.get("timeout_ms", limits.timeout_ms), limits.timeout_ms)
    limits = replace(limits, timeout_ms=timeout_ms)
    argv = ["bash", "-c", command]
    outcome = await context.sandbox.run(argv, directory=context.directory, limits=limits)
    told = _report(outcome, limits)
    return f"{told}\n{_NO_LEDGERS}" if _missed_ledgers(outcome, context.sandbox) else told


def _missed_ledgers(outcome: Outcome, sandbox: Sandbox) -> bool:
    """Whether a command complained about a file in the home's `data`, which this sandbox doesn't show."""
    for hidden in sandbox.hidden:
        data = Home(hidden).data
        is_granted = any(grant.path == data for grant in sandbox.grants)
        if not is_granted and f"{data}/".encode() in outcome.stderr:
            return True
    return False


def _report(outcome: Outcome, limits: Limits) -> str:
    parts = [_clip_output(outcome.stdout)]
    if outcome.stderr:
        parts.append(f"[standard error]\n{_clip_output(outcome.stderr)}")
    if outcome.killed_by:
        parts.append(f"[ended: {_reason(outcome.killed_by, limits)}]")
    elif outcome.exit_code:
        parts.append(f"[exit code {outcome.exit_code}]")
    return "\n".join(part for part in parts if part) or "[no output]"


def _clip_output(output: bytes) -> str:
    return clip(output.decode(errors="replace").rstrip("\n"), _OUTPUT_CHARACTERS)


def _reason(reason: Reason, limits: Limits) -> str:
    match reason:
        case "timeout":
            return f"it took longer than {limits.timeout_ms} ms"
        case "output":
            return f"it printed more than {limits.output_bytes} bytes; print less, or into a file"
        case "memory":
            return f"it used more memory than the {limits.memory_bytes} bytes allowed, or the host ran short"
        case "processes":
            return f"it started more than {limits.processes} processes and threads"
        case "cpu":
            return f"a process computed for more than {limits.cpu_seconds} s"
        case "unwatched":
            return "what it uses could no longer be measured"


BASH = Tool(
    name="bash",
    description="Run a bash command in the sandbox. /tmp is emptied and processes end when it returns.",
    parameters=parameters(
        "command",
        command={"type": "string"},
        timeout_ms={"type": "integer", "minimum": 1},
    ),
    run=_run_command,
)
