"""Amazon Bedrock. It needs the `bedrock` extra.

Without a key the credentials and the region are those of the AWS environment: its variables or `~/.aws`.
"""

import asyncio
from functools import partial
from typing import Any, cast

from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.settings import ModelSettings

from nexus.broker.agent.clients.client import Client, Opening


def connect(opening: Opening) -> Client:
    key = opening.auth_token or opening.api_key
    if key:
        provider = BedrockProvider(api_key=key, base_url=opening.base_url)
    else:
        provider = BedrockProvider(base_url=opening.base_url)
    client = cast("Any", provider.client)

    def add_headers(request: Any, **_: Any) -> None:
        for name, value in opening.headers.items():
            request.headers[name] = value

    # Before it is signed, so that the signature covers them.
    client.meta.events.register("before-sign.bedrock-runtime", add_headers)
    return Client(
        model=lambda name: BedrockConverseModel(name, provider=provider),
        settings=ModelSettings(),
        close=partial(asyncio.to_thread, client.close),
    )
