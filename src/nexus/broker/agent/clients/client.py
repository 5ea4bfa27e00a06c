"""What a provider's client is to the models that it serves."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

NO_KEY = "none"
"""What a server that needs no key is sent, because the clients insist on one."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a client is made with. A token stands instead of a key."""

    base_url: str | None
    api_key: str | None
    auth_token: str | None
    headers: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of every request."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """One provider's client, for all of its models."""

    model: "Callable[[str], Model[Any]]"
    settings: "ModelSettings"
    close: Callable[[], Awaitable[None]]


def send_as_mapped(resource: Any) -> None:
    """Have a client send messages as the agent library has mapped them.

    The clients go through every field of every message by its type annotation, and find nothing to change:
    that took most of a long conversation's time.
    """
    create = resource.create

    async def create_as_mapped(
        *, messages: object, extra_body: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        return await create(messages=[], extra_body={**(extra_body or {}), "messages": messages}, **options)

    resource.create = create_as_mapped


Connect = Callable[[Opening], Client]
"""Every file of this package has one, as `connect`. No client asks again by itself."""
