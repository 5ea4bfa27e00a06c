"""Tools that ask first: which calls wait for the owner, how long, and what was allowed.

A call that waits is a row of the runtime ledger. The run that made it looks there until somebody has decided,
and goes on looking after a restart; until it was allowed, the call has not been made.
"""

import asyncio
import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import apsw

from nexus.errors import MissingError, ToolError, UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import approvals
from nexus.ledgers.runtime.approvals import Approval

Decision = Literal["once", "session", "always", "deny"]
Asked = Callable[[Approval], Awaitable[None]]
"""Told when a call begins to wait."""

_LOOK_S: Final = 0.25
_SUBJECTS: Final = ("command", "path", "url", "query")
_PATTERN: Final = re.compile(r"(?P<tool>[^()]+)(?:\((?P<subject>.*)\))?", re.DOTALL)
# With one of these, a command may do more than its beginning says.
_JOINED: Final = re.compile(r"[;&|`$<>()\n]")
_SEPARATORS: Final = re.compile(r"&&|\|\||[;|&\n]")
_WORDS: Final = {
    "allow": "once", "yes": "once", "once": "once", "session": "session", "always": "always",
    "deny": "deny", "no": "deny",
}  # fmt: skip
_REPLY: Final = re.compile(r"\s*(?P<word>[a-z]+)[.!]?\s*(?P<id>apr_\w+)?\s*", re.IGNORECASE)


def subject(arguments: Mapping[str, Any]) -> str:
    """What a call is about, in a line: its command, path or address, otherwise all its arguments."""
    for name in _SUBJECTS:
        if isinstance(value := arguments.get(name), str):
            return posixpath.normpath(value) if name == "path" else value
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def suggested(tool: str, arguments: Mapping[str, Any]) -> str:
    """The pattern that "always" allows: calls like this one."""
    about = subject(arguments)
    if "command" in arguments and not _JOINED.search(about):
        return f"{tool}({about.split()[0]} *)" if len(about.split()) > 1 else f"{tool}({about})"
    if "url" in arguments and (host := urlsplit(about).netloc):
        return f"{tool}({urlsplit(about).scheme}://{host}/*)"
    if "path" in arguments and (folder := posixpath.dirname(about)):
        return f"{tool}({folder}/*)"
    return f"{tool}({about})"


def is_asked(patterns: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the settings want the owner asked. Each command of a line counts."""
    about = subject(arguments)
    parts = [about, *(part.strip() for part in _SEPARATORS.split(about))]
    return any(_matches(pattern, tool, part) for pattern in patterns for part in parts)


def is_allowed(rules: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a rule allows a call. One with a wildcard allows no command that is made of several."""
    about = subject(arguments)
    for rule in rules:
        wild = "*" in rule.partition("(")[2]
        if wild and "command" in arguments and _JOINED.search(about):
            continue
        if _matches(rule, tool, about):
            return True
    return False


def _matches(pattern: str, tool: str, about: str) -> bool:
    found = _PATTERN.fullmatch(pattern.strip())
    if found is None or not _is_like(found["tool"], tool):
        return False
    return found["subject"] is None or _is_like(found["subject"], about)


def _is_like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which only `*` is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


class Approvals:
    """The calls of one home that wait for its owner."""

    def __init__(self, ledgers: Ledgers, patterns: Sequence[str]) -> None:
        self._ledgers = ledgers
        self._patterns = patterns

    def asks(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the settings want the owner asked before a call."""
        return is_asked(self._patterns, tool, arguments)

    async def wait(
        self,
        *,
        request_id: str,
        execution_id: str,
        call_key: str,
        tool: str,
        arguments: Mapping[str, Any],
        asked: Asked,
    ) -> bool:
        """Wait until a call is allowed. ToolError: it was denied. False: it was allowed and made before."""

        def ask(connection: apsw.Connection) -> Approval:
            found = approvals.ask(
                connection,
                request_id=request_id,
                execution_id=execution_id,
                call_key=call_key,
                tool=tool,
                arguments=arguments,
            )
            ruled = found.status == "waiting" and is_allowed(
                approvals.rules(connection, found.session_label), tool, arguments
            )
            if ruled:
                approvals.decide(connection, found.id, scope="once")
            return approvals.get(connection, found.id) or found

        found = await self._ledgers.runtime.write(ask)
        if found.status == "waiting":
            await asked(found)
        while found.status == "waiting":
            await asyncio.sleep(_LOOK_S)
            found = await self.get(found.id)
        if found.status == "denied":
            raise ToolError("The user declined this call", hint="Ask what to do instead; don't repeat it.")
        return await self._ledgers.runtime.write(approvals.start, approval_id=found.id)

    async def get(self, approval_id: str) -> Approval:
        """One approval."""
        found = await self._ledgers.runtime.read(approvals.get, approval_id=approval_id)
        if found is None:
            raise MissingError(f"Unknown approval {approval_id}", hint="See `nexus approvals`.")
        return found

    async def waiting(self, session_label: str | None = None) -> list[Approval]:
        """The calls that wait, the oldest first."""
        return await self._ledgers.runtime.read(approvals.waiting, session_label=session_label)

    async def decide(self, approval_id: str, decision: Decision) -> Approval:
        """Allow a call once, for its session or always, or deny it."""
        found = await self.get(approval_id)
        pattern = None
        if decision == "session":
            pattern = found.tool
        elif decision == "always":
            pattern = suggested(found.tool, found.arguments)
        scope = None if decision == "deny" else decision
        decided = await self._ledgers.runtime.write(
            approvals.decide, approval_id=approval_id, scope=scope, pattern=pattern
        )
        if not decided:
            raise UsageError(f"{approval_id} was decided already", hint="See `nexus approvals`.")
        return await self.get(approval_id)

    async def reply(self, session_label: str, text: str) -> str | None:
        """Take a message of the owner's as a decision; None where it is none."""
        said = _REPLY.fullmatch(text)
        decision = _WORDS.get(said["word"].lower()) if said else None
        if said is None or decision is None:
            return None
        found = [
            each for each in await self.waiting(session_label) if not said["id"] or each.id == said["id"]
        ]
        if not found:
            return None
        if len(found) > 1:
            listed = "\n".join(f"- {each.id}: {each.tool} {subject(each.arguments)}" for each in found)
            return f"Several calls are waiting. Name one, such as `allow {found[0].id}`:\n{listed}"
        decided = await self.decide(found[0].id, decision)  # pyright: ignore[reportArgumentType] - of _WORDS
        return told(decided)


def question(approval: Approval) -> str:
    """What the owner is asked on a channel."""
    always = suggested(approval.tool, approval.arguments)
    return (
        f"May I run `{approval.tool}`?\n\n```\n{subject(approval.arguments)[:2_000]}\n```\n\n"
        f"Reply `allow`, `session` (allow {approval.tool} in this session), "
        f"`always` (allow {always}) or `deny`. [{approval.id}]"
    )


def told(approval: Approval) -> str:
    """What was decided, in a line."""
    if approval.status == "denied":
        return "Denied."
    if approval.scope == "session":
        return f"Allowed {approval.pattern} for this session."
    return "Allowed once." if approval.scope == "once" else f"Always allowed: {approval.pattern}"
