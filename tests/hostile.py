"""What somebody sends to do harm."""


def slow_mail() -> bytes:
    """A mail of 1 MB that takes minutes: each of its lines is compared with each boundary around it."""
    opened = (b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (n, n) for n in range(300))
    return (
        b"From: eve@evil.example\r\nMessage-ID: <slow@evil.example>\r\n" + b"".join(opened) + b"x\n" * 500_000
    )


_NESTED = b"[" * 100_000 + b"]" * 100_000
FOUND = {
    "unclosed tags": b"From: a@b.example\r\nContent-Type: text/html\r\n\r\n" + b"<a " * 30_000,
    "declarations": b"From: a@b.example\r\nContent-Type: text/html\r\n\r\n" + b"<!" * 20_000,
    "nested blockquotes": b"From: a@b.example\r\nContent-Type: text/html\r\n\r\n" + b"<blockquote>" * 100_000,
    "many senders": b"From: " + b"a@b.example, " * 100_000 + b"\r\n\r\nx",
    "open comments": b"From: a@b.example\r\nTo: " + b"(" * 100_000 + b"\r\n\r\nx",
    "nested lines": b'{"id": "1", "text": "a", "x": ' + _NESTED + b'}\n{"id": "2", "text": "b"}\n',
    "nested items": b'[{"id": "c", "mapping": ' + _NESTED + b"}]",
    "long name": b"14.02.26, 18:30 - Max: IMG-" + b"9" * 1_000_000 + "1.jpg (Datei angehängt)\n".encode(),
    "long number": b'{"id": ' + b"9" * 100_000 + b', "text": "x"}',
}
"""Inputs that held a channel, or ended an import, in some earlier version."""
