"""A client of a home that is served. It imports nothing above the base.

`async with Client.of(home) as client: answer = await client.say("Hello")`.
"""

from nexus.client.client import Client

__all__ = ["Client"]
