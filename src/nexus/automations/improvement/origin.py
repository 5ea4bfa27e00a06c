"""Whose words a run worked on. Only what came from the owner alone is learned without being asked about."""

import json
from typing import cast

import apsw

from nexus.automations.occasion import Occasion
from nexus.automations.scripts.checked import IN_PROCESS
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation

_SHOWN = 5


def is_owners(occasion: Occasion) -> bool:
    """Whether a run worked for somebody with the owner's rights. Nobody else's turn is reflected on."""
    return occasion.request.access.level == "owner"


async def content_of_others(
    ledgers: Ledgers, occasion: Occasion, automation: Automation, done: Invocation
) -> str | None:
    """What of a run may hold somebody else's words; None if the owner wrote everything that went into it.

    Files, pages, mail and memories may quote anybody, so what any tool returned and what was injected
    counts, in the whole conversation.
    """
    if not (automation.script_path or "").startswith(IN_PROCESS) and (done.result or done.output):
        return "what its script returned"
    request = occasion.request
    label = occasion.result.session_label if occasion.result else request.agent.session_label
    asked = await ledgers.agents.read(_asked_in, session_label=label)
    authors = await ledgers.runtime.read(requests.parties, request_ids=[*asked, request.request_id])
    if len(authors.keys() & asked) < len(asked) or any(
        author.access.level != "owner" for author in authors.values()
    ):
        return "what others said in the conversation"
    roots = {request.root_request_id, *(author.root_request_id for author in authors.values())}
    enriched = await ledgers.runtime.read(requests.enriched, root_request_ids=sorted(roots))
    if any(added.get("memories") for added in enriched.values()):
        return "memories"
    if any(added.get("context") for added in enriched.values()):
        return "what automations added"
    called = await ledgers.agents.read(_tools_for, request_ids=[*enriched, request.request_id])
    return f"results of {', '.join(called)}" if called else None


def _asked_in(connection: apsw.Connection, session_label: str) -> set[str]:
    rows = connection.execute(sql.queries("agents")["requests_in_session"], (session_label,))
    return {cast("str", row[0]) for row in rows}


def _tools_for(connection: apsw.Connection, request_ids: list[str]) -> list[str]:
    values = (json.dumps(request_ids), _SHOWN)
    rows = connection.execute(sql.queries("agents")["tools_called_for"], values)
    return [cast("str", row[0]) for row in rows]
