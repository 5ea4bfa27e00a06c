"""nightly-exam: examine the memory every night, and say so if it got worse."""

import asyncio
import json
import sys
from typing import Any

from nexus import Context


async def run(ctx: Context) -> dict[str, Any] | None:
    # state/meeseeks/NAME: the home is three folders up.
    home = ctx.files.home.parents[2]
    options = [f"--{name}={value}" for name, value in ctx.config.get("options", {}).items()]
    program = [sys.executable, "-m", "nexus", "--home", str(home), "memory", "exam", "--json", *options]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    exam = await asyncio.create_subprocess_exec(*program, stdin=nothing, stdout=pipe)
    try:
        output, _ = await exam.communicate()
    except asyncio.CancelledError:
        exam.kill()
        raise
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        return {"flag": f"the exam ended with {exam.returncode} and no result"}
    if exam.returncode == 0:
        return None  # nothing got worse: no message
    wrong = ", ".join(f"{count} {problem}" for problem, count in found["problems"].items())
    before = found["previous"]["found"] if found["previous"] else "?"
    lines = [
        "The memory did worse than in the last exam.",
        f"Found: {found['found']} of {found['sampled']}; of the same, {before} before.",
        f"Wrong: {wrong or 'nothing'}.",
        "See Memory → Exam, or run `nexus memory exam`.",
    ]
    return {"response": "\n".join(lines)}
