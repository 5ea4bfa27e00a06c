"""Runs a program in a sandbox on this process's own streams, for servers that are talked to over them.

It is a process of its own, with the sandbox in a variable, which other users can't see.
When this process ends, so does the sandbox.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from nexus.broker.tools.process import Child
from nexus.broker.tools.watchdog import Limits
from nexus.bubblewrap import Grant, Spec
from nexus.errors import NexusError

_VARIABLE: Final = "NEXUS_SANDBOX"


def command(argv: Sequence[str], spec: Spec, limits: Limits) -> tuple[list[str], dict[str, str]]:
    """What to start instead of a program, and with which environment, so that it runs in a sandbox."""
    told = {
        "argv": list(argv),
        "grants": [[str(grant.path), grant.writable] for grant in spec.grants],
        "hidden": list(map(str, spec.hidden)),
        "network": spec.network,
        "environment": dict(spec.environment),
        "directory": str(spec.directory),
        "cgroup": spec.cgroup and str(spec.cgroup),
        "limits": asdict(limits),
    }
    return [sys.executable, "-I", "-c", f"from {__name__} import main; main()"], {_VARIABLE: json.dumps(told)}


async def run(told: Mapping[str, Any]) -> int:
    """Run the program to its end, or to a limit."""
    limits = Limits(**told["limits"])
    spec = Spec(
        grants=tuple(Grant(path=Path(path), writable=writable) for path, writable in told["grants"]),
        hidden=tuple(map(Path, told["hidden"])),
        network=told["network"],
        temporary_bytes=limits.temporary_bytes,
        environment=told["environment"],
        directory=Path(told["directory"]),
        cgroup=Path(told["cgroup"]) if told["cgroup"] else None,
    )
    child = await Child.start(told["argv"], spec, limits, stdin=None, inherits=True)
    try:
        await child.wait_for_end()
    finally:
        await child.close()
    if child.killed_by is not None:
        sys.stderr.write(f"The sandbox was ended: too much {child.killed_by}\n")
    return 1 if child.exit_code is None else child.exit_code


def main() -> None:
    """Run what the variable says."""
    try:
        sys.exit(asyncio.run(run(json.loads(os.environ.pop(_VARIABLE)))))
    except NexusError as error:
        sys.exit(str(error))
