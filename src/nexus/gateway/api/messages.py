"""`POST /api/messages`: say something as the owner, and find what answers.

The dashboard's form enters at `pages/chat.say`; both call `App.receive`.
"""

from typing import Annotated, Literal

from fastapi import Header
from pydantic import Base64Bytes, BaseModel, Field

from nexus.attachments import File
from nexus.gateway.dependencies import ServedApp, api_router
from nexus.ledgers.runtime.executions import Mode

router = api_router("messages")
Channel = Literal["api", "cli", "web"]
"""Where the owner says something by the gateway."""


class NewAttachment(BaseModel):
    """A file that comes with a message."""

    name: str = Field(min_length=1, max_length=200, description="Its name, for people.")
    data: Base64Bytes = Field(description="Its bytes, in Base64.")


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
    attachments: list[NewAttachment] = Field(
        default=[], max_length=100, description="Files to include: images, recordings, PDFs and text."
    )
    replaces: str | None = Field(
        default=None,
        max_length=200,
        description="Run whose message it replaces; that turn and those after it leave the history.",
    )
    channel: Channel = Field(default="api", description="Channel. It grants no rights.")


class Accepted(BaseModel):
    """A recorded message."""

    request_id: str = Field(description="See /api/requests/{request_id}.")
    execution_id: str | None = Field(
        description="See /api/executions/{execution_id}/stream. Null if no agent was asked: see `reason`."
    )
    reason: str | None = Field(
        default=None, description="Why there is no run, such as `an automation answered`."
    )
    content: str | None = Field(default=None, description="The answer, if already available.")


@router.post("/messages", status_code=202)
async def send_message(
    app: ServedApp,
    message: NewMessage,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="Repeating a message with the same key returns the first run. With another text or "
            "session, the same key is an error.",
        ),
    ] = None,
) -> Accepted:
    """Send a message. Returns the ids of its request and run immediately.

    The agent gets the text of attached PDFs and text files and the words of recordings, and sees images if
    its model reads them.
    """
    receipt = await app.receive(
        message.text,
        session_label=message.session,
        channel=message.channel,
        model=message.model,
        mode=message.mode,
        replaces=message.replaces,
        files=[File(name=each.name, data=each.data) for each in message.attachments],
        external_id=None if idempotency_key is None else f"key:{idempotency_key}",
    )
    content = None if receipt.execution_id else (await receipt.run.result()).response.content
    return Accepted(
        request_id=receipt.request_id,
        execution_id=receipt.execution_id,
        reason=receipt.reason or None,
        content=content,
    )
