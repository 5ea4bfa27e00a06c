"""Tools that ask first: which calls wait for the owner, how long, and what was allowed.

A call that waits is a row of the runtime ledger. The run that made it looks there until somebody has decided,
and goes on looking after a restart; until it was allowed, the call has not been made. An answer is about one
exact call: if another one took its place, it needs an answer of its own.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import apsw

from nexus.broker.questions import Rule, code_of, confirm, find_pattern, question, suggest_rule
from nexus.broker.taint import Source
from nexus.broker.tools import Effect, Preview
from nexus.config import ToolsConfig
from nexus.errors import MissingError, ToolError, UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import approvals
from nexus.ledgers.runtime.approvals import Approval

Decision = Literal["once", "session", "always", "deny"]
Asked = Callable[[Approval], Awaitable[None]]
"""Told when a call begins to wait."""
FindSource = Callable[[], Awaitable[Source | None]]
"""Looks for other people's text that the run may have read."""

DECLINED: Final = "The user declined this call"
_LOOK_S: Final = 0.25
_WORDS: Final[Mapping[str, Decision]] = {
    "allow": "once", "yes": "once", "once": "once", "session": "session", "always": "always",
    "deny": "deny", "no": "deny",
}  # fmt: skip
_REPLY: Final = re.compile(
    r"\s*(?P<word>[a-z]+)[.!,:]?(?:\s+(?P<name>A\d{5}|apr_\w+))?[.!]?\s*", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why the owner is asked about a call."""

    text: str
    tainted_by: str | None = None


class Approvals:
    """The calls of one home that wait for its owner."""

    def __init__(self, ledgers: Ledgers, settings: ToolsConfig, public_url: str = "") -> None:
        self._ledgers = ledgers
        self._settings = settings
        self._public_url = public_url.rstrip("/")

    async def find_reason(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        effects: frozenset[Effect],
        find_source: FindSource,
    ) -> Reason | None:
        """Why the settings want the owner asked before a call; None where they don't."""
        wanted = self._settings.ask_when_tainted
        if not effects.isdisjoint(wanted) or find_pattern(wanted, tool, arguments):
            source = await find_source()
            if source is not None:
                text = f"This run has read text that you didn't write: {source.name}."
                return Reason(text=text, tainted_by=source.text)
        pattern = find_pattern(self._settings.ask, tool, arguments)
        return Reason(text=f"`ask` in [tools] lists {pattern}.") if pattern else None

    async def ask(
        self,
        *,
        request_id: str,
        execution_id: str,
        call_key: str,
        tool: str,
        arguments: Mapping[str, Any],
        reason: Reason,
        preview: Preview | None = None,
        asked: Asked,
    ) -> Approval:
        """Ask about a call, unless a rule allows it. The same call again finds the same question."""

        def record(connection: apsw.Connection) -> Approval:
            found = approvals.ask(
                connection,
                request_id=request_id,
                execution_id=execution_id,
                call_key=call_key,
                tool=tool,
                arguments=arguments,
                reason=reason.text,
                tainted_by=reason.tainted_by,
                preview=preview.text if preview else "",
                state=preview.state if preview else "",
            )
            rules = approvals.rules(connection, found) if found.status == "waiting" else []
            if any(Rule.from_json(rule).allows(tool, arguments) for rule in rules):
                approvals.decide(connection, found.id, scope="once")
            return approvals.get(connection, found.id) or found

        found = await self._ledgers.runtime.write(record)
        if found.status == "waiting":
            await asked(found)
        return found

    async def wait_for_answer(self, found: Approval) -> Approval:
        """Wait until a call is allowed. ToolError: it was denied."""
        while found.status == "waiting":
            await asyncio.sleep(_LOOK_S)
            found = await self.get(found.id)
        if found.status != "allowed":
            raise ToolError(DECLINED, hint="Ask what to do instead; don't repeat it.")
        return found

    async def wait(self, found: Approval) -> bool:
        """Wait until a call is allowed, and record that it is made. False: it was made before."""
        found = await self.wait_for_answer(found)
        return await self._ledgers.runtime.write(approvals.start, approval_id=found.id)

    async def is_unmade(self, execution_id: str, call_key: str) -> bool:
        """Whether a call of a run waited or waits for the owner, and was never begun."""
        values = {"execution_id": execution_id, "call_key": call_key}
        return await self._ledgers.runtime.read(approvals.is_unmade, **values)

    async def get(self, name: str) -> Approval:
        """One approval by its id, or a waiting one by the code that its question has."""
        found = await self._ledgers.runtime.read(approvals.get, approval_id=name)
        named = [found] if found else [each for each in await self.waiting() if code_of(each) == name.upper()]
        if len(named) != 1:
            raise MissingError(f"No call {name:.40} is waiting", hint="See `nexus approvals`.")
        return named[0]

    async def waiting(self, session_label: str | None = None) -> list[Approval]:
        """The calls that wait, the oldest first."""
        return await self._ledgers.runtime.read(approvals.list_waiting, session_label=session_label)

    async def decide(self, name: str, decision: Decision, call_hash: str | None = None) -> Approval:
        """Allow a call once, for its session or always, or deny it.

        With the hash of the call that the answer is about, one about another call is refused.
        """
        found = await self.get(name)
        if call_hash is not None and call_hash != found.call_hash:
            raise UsageError("This answer is about another call", hint="Read the question again.")
        rule = None
        if decision in {"session", "always"}:
            if not found.may_become_rule:
                code = code_of(found)
                why = "its run has read other people's text" if found.level == "owner" else "it is a guest's"
                raise UsageError(
                    f"{code} can only be allowed once or denied: {why}",
                    hint=f"Reply `allow {code}` or `deny {code}`.",
                )
            rule = (
                Rule(tool=found.tool) if decision == "session" else suggest_rule(found.tool, found.arguments)
            )
        decided = await self._ledgers.runtime.write(
            approvals.decide,
            approval_id=found.id,
            scope=None if decision == "deny" else decision,
            pattern=rule and rule.to_json(),
        )
        if not decided:
            raise UsageError(f"{name} was decided already, or its run ended", hint="See `nexus approvals`.")
        return await self.get(found.id)

    async def reply(self, session_label: str, text: str, *, in_company: bool = False) -> str | None:
        """Take a message of the owner's as a decision; None where it is none.

        It must name the question. Otherwise nothing is decided, and what waits here is asked about again.
        """
        said = _REPLY.fullmatch(text)
        decision = _WORDS.get(said["word"].lower()) if said else None
        if said is None or decision is None:
            return None
        name, here = said["name"], await self.waiting(session_label)
        if name:
            named = [
                each for each in await self.waiting() if name.upper() in {code_of(each), each.id.upper()}
            ]
            if len(named) == 1:
                try:
                    return confirm(await self.decide(named[0].id, decision))
                except UsageError as error:
                    return f"{error.message}. {error.hint}"
            refused = f"{name.upper()} is no longer waiting: it was answered, changed or stopped."
        elif here:
            example = f"{said['word'].lower()} {code_of(here[0])}"
            refused = f"Which call do you mean? Answer with its code, such as `{example}`."
        else:
            return None
        return "\n\n".join([refused, *(self.question(each, in_company=in_company) for each in here)])

    def question(self, approval: Approval, *, in_company: bool = False) -> str:
        """What the owner is asked on a channel."""
        link = f"{self._public_url}/approvals/{approval.id}" if self._public_url else ""
        return question(approval, link=link, in_company=in_company)
