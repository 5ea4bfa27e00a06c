"""Runs a program that can reach only what it was granted.

The boundary is what is mounted and which namespaces are shared, never what a command's text looks
like. Where no sandbox can be had, nothing runs: there is no way past it to the bare host.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexus import bubblewrap
from nexus.broker.tools.process import Child, launch_command
from nexus.broker.tools.watchdog import Limits, Reason
from nexus.bubblewrap import Grant
from nexus.errors import SandboxError

__all__ = ["Grant", "Limits", "Outcome", "Reason", "Sandbox", "Unavailable", "availability"]

_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108  the sandbox's own, gone when it ends
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TERM": "dumb",
    "USER": "nexus",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one run. `exit_code` is None where a limit ended it, and `killed_by` says which."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    duration_ms: int
    killed_by: Reason | None


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """What a principal may touch. Each run gets a root, a /tmp and processes of its own.

    `network` shares the host's network whole: its loopback too. Directories in `hidden` are empty inside
    grants that hold them; name them by paths without symbolic links.
    """

    grants: tuple[Grant, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    cgroup: Path | None = None

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        directory: Path | None = None,
        limits: Limits | None = None,
    ) -> Outcome:
        """Run a program to its end, or to a limit. Cancelling this kills everything it started."""
        begin = time.monotonic()
        limits = limits or self.limits
        spec = self._spec(limits, directory or Path("/"))
        child = await Child.start(argv, spec, limits, stdin=stdin)
        try:
            async with asyncio.timeout(limits.timeout_ms / 1000):
                await child.wait_for_end()
        except TimeoutError:
            child.kill("timeout")
        finally:
            await child.close()
        return self._outcome(child, limits, begin)

    def command(self, argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """A command that runs a program in here, and its environment: for servers that others start."""
        return launch_command(argv, self._spec(self.limits, Path("/")), self.limits)

    def _spec(self, limits: Limits, directory: Path) -> bubblewrap.Spec:
        return bubblewrap.Spec(
            grants=self.grants,
            hidden=self.hidden,
            network=self.network,
            temporary_bytes=limits.temporary_bytes,
            environment={**_ENVIRONMENT, **self.environment},
            directory=directory,
            cgroup=self.cgroup,
        )

    @staticmethod
    def _outcome(child: Child, limits: Limits, begin: float) -> Outcome:
        if child.killed_by is None and child.exit_code is None:
            raise bubblewrap.explain(child.stderr.decode(errors="replace"))
        return Outcome(
            exit_code=None if child.killed_by else child.exit_code,
            stdout=bytes(child.stdout),
            stderr=bytes(child.stderr),
            truncated=child.printed_bytes > limits.output_bytes,
            duration_ms=round((time.monotonic() - begin) * 1000),
            killed_by=child.killed_by,
        )


@dataclass(frozen=True, kw_only=True)
class Unavailable:
    """Why nothing can be run in a sandbox here, and what to do about it."""

    reason: str
    hint: str


async def availability() -> Unavailable | None:
    """None where a sandbox really works here, found by running one."""
    try:
        outcome = await Sandbox(limits=Limits(timeout_ms=10_000)).run(["true"])
    except SandboxError as error:
        return Unavailable(reason=error.message, hint=error.hint)
    if outcome.exit_code != 0:
        hint = "Run `bwrap --unshare-all --ro-bind / / true` to see the error."
        return Unavailable(reason=f"The sandbox starts but does not work: {outcome}", hint=hint)
    return None
