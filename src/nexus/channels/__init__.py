"""Channels: where people reach the agent besides its own windows.

An adapter connects one: it hands over what comes in and sends what goes out. `adapter` says what one is,
`program` lets any program be one, and the other files are those that ship with Nexus.
"""

from nexus.channels.adapter import Adapter, Delivery, DeliveryError, File, Inbox, Message, ShowsWork
from nexus.channels.supervisor import Channels, Progress

__all__ = [
    "Adapter",
    "Channels",
    "Delivery",
    "DeliveryError",
    "File",
    "Inbox",
    "Message",
    "Progress",
    "ShowsWork",
]
