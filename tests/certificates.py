"""Certificates for servers of tests."""

import subprocess
from pathlib import Path


def certify(certificate: Path, key: Path) -> None:
    """Make a certificate for this machine that nobody else signed."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *names, *files], check=True, capture_output=True)
