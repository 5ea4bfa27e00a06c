"""What somebody sends to do harm."""


def slow_mail() -> bytes:
    """A mail of 1 MB that takes minutes: each of its lines is compared with each boundary around it."""
    opened = (b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (n, n) for n in range(300))
    return (
        b"From: eve@evil.example\r\nMessage-ID: <slow@evil.example>\r\n" + b"".join(opened) + b"x\n" * 500_000
    )
