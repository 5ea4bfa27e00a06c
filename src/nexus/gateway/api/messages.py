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
    """Something to say to the agent, as the owner of the home."""

    text: str = Field(min_length=1, pattern=r"\S", description="What is said.")
    session: str = Field(
        default="main",
        min_length=1,
        max_length=200,
        pattern=r"\S",
        description="The conversation that it belongs to; one of that label is begun where there is none.",
    )
    model: str = Field(
        default="",
        max_length=200,
        description="`provider/model` that is to answer. Empty: the one of the settings.",
    )
    mode: Mode = Field(
        default="followup",
        description="What happens while the session is busy: `followup` waits, `collect` is answered with "
        "what comes shortly after, `steer` is offered to the run under way, `interrupt` cancels that.",
    )
    channel: Channel = Field(default="api", description="Where it was said. It gives no rights.")


class Accepted(BaseModel):
    """A message that was recorded and is being answered."""

    request_id: str = Field(description="The request that it became: see /api/requests/{request_id}.")
    execution_id: str | None = Field(
        description="The run that answers: see /api/executions/{execution_id}/stream. Null where an "
        "automation has answered instead."
    )
    content: str | None = Field(default=None, description="The answer, where there is one already.")


@router.post("/messages", status_code=202)
async def send_message(
    home: Home,
    message: NewMessage,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="A message that is sent again under the same key is answered once: the second answer "
            "names the first one's run.",
        ),
    ] = None,
) -> Accepted:
    """Say something, and get the ids of the request and the run that answers it, at once."""
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
