"""The program of a tool's own process: it imports the tool's package, calls it, and writes JSON.

Usage: function_program.py PATH… with what is asked on standard input.
"""

import json
import os
import sys
from typing import Any

MARK = b"\0"
"""Before the answer. What a tool prints comes earlier, or goes to standard error."""


def main() -> None:
    """Answer the one question on standard input."""
    sys.path += [path for path in sys.argv[1:] if path not in sys.path]
    asked: dict[str, Any] = json.load(sys.stdin)
    answers = os.dup(1)
    os.dup2(2, 1)  # what it prints is no answer
    answer = _answer(asked)
    data = memoryview(MARK + json.dumps(answer).encode())
    while data:
        data = data[os.write(answers, data) :]


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    import asyncio
    from dataclasses import asdict
    from importlib.metadata import EntryPoint

    from nexus.broker.tools import functions
    from nexus.errors import NexusError

    try:
        tool = functions.load_offered(EntryPoint(asked["name"], asked["value"], functions.GROUP))
        if asked["arguments"] is None:
            return {"offer": asdict(tool.describe())}
        return {"answer": asyncio.run(tool.answer(asked["arguments"]))}
    except NexusError as error:
        return {"failed": error.message, "hint": error.hint}
    except BaseException as error:  # whatever it raises, SystemExit too, is its answer
        return {"failed": f"{type(error).__name__}: {error}".rstrip(": ")}


if __name__ == "__main__":
    main()
