"""The `bash` tool: a command in the sandbox, and what came of it as text."""

from dataclasses import replace

from nexus.broker.tools.sandbox import Limits, Outcome, Reason, Sandbox
from nexus.broker.tools.tool import Arguments, Context, Tool, clip, parameters
from nexus.errors import ToolError
from nexus.home import Home

# One argument of a program may have 128 KiB on Linux.
_LONGEST_COMMAND_BYTES = 120 * 1024
_SHOWN_CHARACTERS = 30_000
_NO_LEDGERS = (
    "[this agent can't read the ledgers: search with the `recall` tool or skills/memory/memory-search.sh. "
    "The owner can let an automation's agents read them: `nexus automations register NAME --ledgers`.]"
)


async def _run(arguments: Arguments, context: Context) -> str:
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
    return clip(output.decode(errors="replace").rstrip("\n"), _SHOWN_CHARACTERS)


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
    run=_run,
)
