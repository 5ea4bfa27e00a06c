"""Mail addresses and domains as they are compared: two that lead to different mailboxes never become one."""

import re
from functools import cache
from typing import Final

import idna
from publicsuffixlist import PublicSuffixList

_ADDRESS: Final = re.compile(r"[^\s<>@,;:\"()\[\]\\]{1,64}@[^\s<>@,;:\"()\[\]\\]{1,253}")
_UPPER: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


def normalize_address(text: str) -> str:
    """Return an address for comparing; empty if it is none that a mail can be answered to.

    Only ASCII letters lose their case: folding others makes `straße` `strasse`, which is somebody else's.
    """
    address = text.strip()
    # An encoded word is no part of an address, and would turn into another one when it is written out.
    if not _ADDRESS.fullmatch(address) or "=?" in address:
        return ""
    local, _, domain = address.rpartition("@")
    normalized = normalize_domain(domain)
    return f"{local.translate(_UPPER)}@{normalized}" if normalized else ""


def normalize_domain(text: str) -> str:
    """Return a domain as the DNS has it, in ASCII; empty if it can't be one."""
    labels: list[str] = []
    for label in text.split("."):
        if label.isascii():
            labels.append(label.translate(_UPPER))
            continue
        try:
            encoded = idna.encode(label, uts46=True).decode()
        except (idna.IDNAError, UnicodeError):
            return ""
        # A letter that only looks like ASCII must not become it.
        if not encoded.startswith("xn--"):
            return ""
        labels.append(encoded)
    return ".".join(labels)


def organization(domain: str) -> str:
    """Return the registered domain, by the public suffix list; empty for a suffix such as `co.uk`."""
    return _suffixes().privatesuffix(normalize_domain(domain)) or ""


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
