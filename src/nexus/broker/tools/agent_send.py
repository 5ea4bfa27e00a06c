"""The `agent_send` tool: give a task to a worker, ask after it, wait for it, stop it."""

from nexus.broker.tools.tool import Arguments, Context, Tool, Worker, parameters
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError

_WAIT_MS = 300_000
_LONGEST_WAIT_MS = 3_600_000
_SHOWN_CHARACTERS = 80


async def _run(arguments: Arguments, context: Context) -> str:
    if context.call is None or context.workers is None:
        raise ToolError("There are no workers here")
    call, workers = context.call, context.workers
    worker = None if arguments.get("worker") in ("", "all") else arguments.get("worker")
    match arguments["op"]:
        case "dispatch":
            text: str = arguments.get("text", "").strip()
            if not text:
                raise ToolError("`text` is missing", hint="Write the task so that it stands on its own.")
            made = await workers.dispatch(call, text, read_only=arguments.get("read_only", False))
            if arguments.get("wait"):
                # Small models fill in every argument: no time at all is none given.
                timeout_ms = arguments.get("timeout_ms") or _WAIT_MS
                return _report_results(await workers.wait(call, made.id, min(timeout_ms, _LONGEST_WAIT_MS)))
            return f"Dispatched as {made.id}. Call agent_send with the op `wait` to get its result."
        case "status":
            return _list_workers(await workers.status(call, worker))
        case "wait":
            timeout_ms = min(arguments.get("timeout_ms", _WAIT_MS), _LONGEST_WAIT_MS)
            return _report_results(await workers.wait(call, worker, timeout_ms))
        case _:
            return _list_workers(await workers.cancel(call, worker))


def _list_workers(found: list[Worker]) -> str:
    lines = [f"{worker.id} {worker.status}: {worker.task[:_SHOWN_CHARACTERS]}" for worker in found]
    return "\n".join(lines) or "No workers."


def _report_results(found: list[Worker]) -> str:
    if not found:
        raise ToolError(
            "There is no worker to wait for",
            hint="Start one with op=dispatch, its task as text, and wait=true.",
        )
    return "\n".join(_one(worker) for worker in found)


def _one(worker: Worker) -> str:
    if worker.delivered:
        return f"{worker.id} {worker.status}: its result comes, or came, as a message."
    if worker.result is None:
        return f"{worker.id} is still running."
    return result_text(worker)


def result_text(worker: Worker) -> str:
    """A worker's result as a model is told it."""
    return wrapped("worker_result", worker.result or "", worker=worker.id, outcome=worker.status)


AGENT_SEND = Tool(
    name="agent_send",
    description=("Give tasks to workers that run beside you: `dispatch` returns an id, `wait` the results."),
    parameters=parameters(
        "op",
        op={"type": "string", "enum": ["dispatch", "wait", "status", "cancel"]},
        text={"type": "string", "description": "The whole task."},
        wait={"type": "boolean", "description": "Return its result."},
        read_only={"type": "boolean"},
        worker={"type": "string", "description": "Default: all."},
        timeout_ms={"type": "integer", "minimum": 0},
    ),
    run=_run,
    repeatable=True,
)
