"""A push service and a browser behind it: it opens each message as a browser would, by RFC 8291 and 8188.

It is written from the specifications with `cryptography` alone, so that it shares nothing with the sender.
"""

import base64
import json
import os
import struct
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


@dataclass
class PushService:
    """Takes messages on loopback; `status` is what it answers."""

    status: int = 201
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    claims: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)
        self._arrived = Condition()

    def __enter__(self) -> Self:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                service._take(dict(self.headers.items()), body)
                self.send_response(service.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def subscription(self, name: str = "one") -> dict[str, str]:
        """What a browser hands to the home."""
        return {
            "endpoint": f"{self.origin}/push/{name}",
            "p256dh": _encoded(_point(self._key.public_key())),
            "auth": _encoded(self._auth),
        }

    def wait(self, count: int, timeout_s: float = 60) -> list[dict[str, Any]]:
        """The messages, once there are so many."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.messages) >= count, timeout_s), self.messages
            return list(self.messages)

    def _take(self, headers: dict[str, str], body: bytes) -> None:
        lower = {name.lower(): value for name, value in headers.items()}
        claims = _verified(lower["authorization"])
        with self._arrived:
            self.headers.append(lower)
            self.claims.append(claims)
            self.messages.append(json.loads(self._opened(body)))
            self._arrived.notify_all()

    def _opened(self, body: bytes) -> bytes:
        """Decrypt one record of `aes128gcm` with the browser's own keys."""
        salt, (_, length) = body[:16], struct.unpack("!IB", body[16:21])
        sender, sealed = body[21 : 21 + length], body[21 + length :]
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self._key.exchange(ec.ECDH(), public)
        info = b"WebPush: info\0" + _point(self._key.public_key()) + sender
        secret = _derived(self._auth, shared, info, 32)
        key = _derived(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derived(salt, secret, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, sealed, None)
        text, _, padding = padded.rpartition(b"\x02")
        assert not padding.strip(b"\0")
        return text


def _verified(authorization: str) -> dict[str, Any]:
    """The claims of a VAPID header whose signature holds."""
    scheme, _, rest = authorization.partition(" ")
    assert scheme == "vapid"
    parts = dict(each.strip().split("=", 1) for each in rest.split(","))
    signed, _, signature = parts["t"].rpartition(".")
    raw = _decoded(signature)
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decoded(parts["k"]))
    both = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    public.verify(both, signed.encode(), ec.ECDSA(hashes.SHA256()))
    return json.loads(_decoded(signed.split(".")[1]))


def _derived(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
