"""Channels: their state, and the messages they couldn't process or deliver."""

from pydantic import BaseModel, Field

from nexus.app import App
from nexus.errors import MissingError
from nexus.gateway.dependencies import ServedApp, api_router
from nexus.ledgers.runtime import channels as ledger

router = api_router("channels")


class Channel(BaseModel):
    """A channel and its state."""

    name: str
    kind: str = Field(description="What connects it, by the settings.")
    status: str = Field(
        description="`starting`, `connected`, `waiting` (for its next start), `paused`, `stopped`."
    )
    reason: str | None = Field(description="The last error, if it is not connected.")
    paused: bool
    restarts: int = Field(description="Times it ended unexpectedly since it last connected.")
    last_message_at: str | None
    waiting: int = Field(description="How many messages it has to send.")
    failed: int = Field(description="Messages that couldn't be sent.")
    set_aside: int = Field(description="Messages that couldn't be processed.")


class SetAside(BaseModel):
    """A message that couldn't be processed."""

    id: str
    channel: str
    external_id: str = Field(description="What the channel calls it.")
    sender: str
    reason: str
    created_at: str


class Changed(BaseModel):
    """How many messages something was done to."""

    count: int


@router.get("/channels")
async def list_channels(app: ServedApp) -> list[Channel]:
    """Every channel of the settings."""
    return [await _load_channel(app, name) for name in app.config.channels]


@router.post("/channels/{name}/pause")
async def pause_channel(app: ServedApp, name: str) -> Channel:
    """Disconnect a channel. What it has to send waits."""
    await _require_channel(app, name).ledgers.runtime.write(ledger.pause, name=name, paused=True)
    return await _load_channel(app, name)


@router.post("/channels/{name}/resume")
async def resume_channel(app: ServedApp, name: str) -> Channel:
    """Connect a channel again."""
    await _require_channel(app, name).ledgers.runtime.write(ledger.pause, name=name, paused=False)
    return await _load_channel(app, name)


@router.post("/channels/{name}/retry")
async def retry_deliveries(app: ServedApp, name: str) -> Changed:
    """Send again what could not be sent."""
    count = await _require_channel(app, name).ledgers.runtime.write(ledger.retry, channel=name)
    app.channels.wake(name)
    return Changed(count=count)


@router.get("/set-aside")
async def list_set_aside(app: ServedApp) -> list[SetAside]:
    """List messages that couldn't be processed."""
    found = await app.ledgers.runtime.read(ledger.list_set_aside, channel=None)
    return [
        SetAside(
            id=each.id,
            channel=each.channel,
            external_id=each.external_id,
            sender=each.sender,
            reason=each.reason,
            created_at=each.created_at,
        )
        for each in found
    ]


@router.post("/set-aside/{id}/retry")
async def retry_set_aside(app: ServedApp, id: str) -> Changed:  # noqa: A002 - the name in the path
    """Process a message again. If that fails, it stays set aside."""
    if not await app.channels.retry(id):
        raise MissingError(f"No message {id} was set aside", hint="GET /api/set-aside lists them.")
    return Changed(count=1)


@router.delete("/set-aside/{id}")
async def dismiss_set_aside(app: ServedApp, id: str) -> Changed:  # noqa: A002 - the name in the path
    """Remove a message that was set aside."""
    if not await app.ledgers.runtime.write(ledger.take, id_=id):
        raise MissingError(f"No message {id} was set aside", hint="GET /api/set-aside lists them.")
    return Changed(count=1)


def _require_channel(app: App, name: str) -> App:
    if name not in app.config.channels:
        raise MissingError(f"Unknown channel {name}", hint="GET /api/channels lists them.")
    return app


async def _load_channel(app: App, name: str) -> Channel:
    state = await app.ledgers.runtime.read(ledger.state, name=name)
    counts = await app.ledgers.runtime.read(ledger.counts, name=name)
    return Channel(
        name=name,
        kind=app.config.channels[name].kind,
        status=state.status,
        reason=state.reason,
        paused=state.paused,
        restarts=state.restarts,
        last_message_at=state.last_message_at,
        waiting=counts.waiting,
        failed=counts.failed,
        set_aside=counts.set_aside,
    )
