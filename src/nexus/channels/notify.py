"""A channel that only sends: notifications through any service that Apprise knows.

Nothing comes in. A notification that a service accepted just as the program ended is sent again: most
services have no idempotency keys.
"""

import asyncio
from typing import Any

import apprise

from nexus.channels.adapter import Capability, Delivery, DeliveryError, Inbox
from nexus.errors import ConfigError


class Notify:
    """Sends notifications to the services that URLs name."""

    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, name: str, *, urls: str) -> None:
        self._services: Any = apprise.Apprise()  # its types are incomplete
        for url in urls.split():
            if not self._services.add(url):
                raise ConfigError(
                    f"[channels.{name}] `secret` contains an invalid Apprise URL",
                    hint="Write it as Apprise does, such as `ntfy://ntfy.sh/my-topic`.",
                )
        if not len(self._services):
            raise ConfigError(f"[channels.{name}] `secret` contains no Apprise URL")

    async def run(self, inbox: Inbox) -> None:
        """Wait: nothing comes in."""
        await inbox.connected()
        await asyncio.Event().wait()

    async def deliver(self, delivery: Delivery) -> str | None:
        """Send a notification to every service."""
        sent = await self._services.async_notify(
            body=delivery.text, title=delivery.title or "", body_format=apprise.NotifyFormat.MARKDOWN
        )
        if not sent:
            raise DeliveryError("a service did not accept the notification")
        return None
