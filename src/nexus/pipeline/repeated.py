"""A message that comes again under the same key: it is worked on once, and the second finds the first."""

from nexus import ids
from nexus.broker.broker import Broker
from nexus.errors import AccessError, UsageError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.requests import StoredRequest
from nexus.ledgers.text import storable
from nexus.pipeline.incoming import Incoming
from nexus.runs import FinishedRun, Receipt


async def received_before(ledgers: Ledgers, broker: Broker, incoming: Incoming) -> Receipt | None:
    """What became of the message; None if it is new or was never handed to an agent."""
    external_id = incoming.external_id
    if external_id is None:
        return None
    event = await ledgers.events.read(events.delivered, channel=incoming.channel, external_id=external_id)
    if event is None:
        return None
    if event.content != storable(incoming.content):
        raise UsageError(
            "This idempotency key was used for another message", hint="Use a new key for each message."
        )
    request = await ledgers.runtime.read(requests.for_event, event_id=event.id)
    if request is None:
        return None
    runs = await ledgers.runtime.read(
        executions.of_request, request_id=request.id, session_label=request.session_label or ""
    )
    if runs:
        return Receipt(request_id=request.id, run=broker.run(runs[0].id), execution_id=runs[0].id)
    return await _without_run(ledgers, request)


async def _without_run(ledgers: Ledgers, request: StoredRequest) -> Receipt | None:
    if request.status == "denied":
        raise AccessError(f"This was denied: {request.error}")
    if request.status == "failed" or request.status == "cancelled":
        return None  # nobody was asked on its behalf, and nobody will be: it is received anew
    if request.status == "running":
        # It holds the key no more.
        await ledgers.runtime.write(
            requests.end,
            request_id=request.id,
            status="failed",
            error="Its process ended before it was asked",
        )
        return None
    external_id = ids.derived("evt", request.id, "answer")
    said = await ledgers.events.read(events.delivered, channel=request.channel or "", external_id=external_id)
    return Receipt(request_id=request.id, run=FinishedRun.of(request.id, said.content if said else ""))
