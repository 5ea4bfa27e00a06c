"""Messages: say something as the owner, and find what answers."""

from typing import Annotated, Literal

from fastapi import APIRouter, Header
from pydantic import BaseModel, Field

from nexus.gateway.dependencies import Home
from nexus.ledgers.runtime.executions import Mode

router = APIRouter(tags=["messages"])
Channel = Literal["api", "cli", "web"]
"""Where the owner says something by the gateway."""


class NewMessage(BaseModel):
    """A message to the agent, from the owner."""

    text: str = Field(min_length=1, pattern=r"\S", description="Text of the message.")
    session: str = Field(
        default="main",
        min_length=1,
        max_length=200,
        pattern=r"\S",
        description="Session label; created if new.",
    )
    model: str = Field(
        default="",
        max_length=200,
        description="`provider/model` to use. Empty: the configured one.",
    )
    mode: Mode = Field(
        default="followup",
        description=(
            "If the session is busy: `followup` waits, `collect` joins messages that follow "
            "shortly, `steer` joins the current run, `interrupt` cancels it."
        ),
    )
    channel: Channel = Field(default="api", description="Channel. It grants no rights.")


class Accepted(BaseModel):
    """A recorded message."""

    request_id: str = Field(description="See /api/requests/{request_id}.")
    execution_id: str | None = Field(
        description="See /api/executions/{execution_id}/stream. Null if an automation answered."
    )
    content: str | None = Field(default=None, description="The answer, if already available.")


@router.post("/messages", status_code=202)
async def send_message(
    home: Home,
    message: NewMessage,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="Repeating a message with the same key returns the first run.",
        ),
    ] = None,
) -> Accepted:
    """Send a message. Returns the ids of its request and run immediately."""
    receipt = await home.receive(
        message.text,
        session_label=message.session,
        channel=message.channel,
        model=message.model,
        mode=message.mode,
        external_id=None if idempotency_key is None else f"key:{idempotency_key}",
    )
    content = None if receipt.execution_id else (await receipt.run.result()).response.content
    return Accepted(request_id=receipt.request_id, execution_id=receipt.execution_id, content=content)
