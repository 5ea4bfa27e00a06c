"""Channels: where people reach the agent besides its own windows.

An adapter connects one: it hands over what comes in and sends what goes out. `adapter` says what one is,
`program` lets any program be one, and the other files are those that ship with Nexus. The names below are
public.
"""

from nexus.channels.adapter import (
    Adapter,
    Capability,
    Delivery,
    DeliveryError,
    File,
    Inbox,
    Message,
    MessageError,
    Removes,
    ShowsWork,
    channel,
)

__all__ = [
    "Adapter",
    "Capability",
    "Delivery",
    "DeliveryError",
    "File",
    "Inbox",
    "Message",
    "MessageError",
    "Removes",
    "ShowsWork",
    "channel",
]
