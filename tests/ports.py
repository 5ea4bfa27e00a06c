"""Ports for servers that are started again at the same place."""

import secrets
import socket
from typing import Final

# Below those that the kernel gives to connections and to whoever asks for any port.
_FIRST: Final = 12_000
_END: Final = 32_000


def free_port() -> int:
    """A port that nobody has, and that nobody is given while its server is down."""
    while True:
        port = _FIRST + secrets.randbelow(_END - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
