"""Aliases as they are matched: each type has its own cleaning, and an unknown type is cleaned as a name.

The cleaned text of a plain name is its lower case, so `WHERE normalized = lower(?)` finds it in SQL.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from nexus.ledgers.text import storable

NAME: Final = "name"
# Types whose text belongs to one owner: two entities that share one are probably the same.
IDENTIFYING: Final = frozenset({"email", "phone", "handle", "url"})

_TYPE = re.compile(r"[a-z][a-z0-9_]*")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_HANDLE = re.compile(r"@\w[\w.\-]*")
_PHONE = re.compile(r"\+[\d\s().\-/]{6,}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalize(text: str, type_: str = NAME, *, phone_region: str = "") -> str:
    """Clean a text for matching; empty if nothing is left to match."""
    if type_ == "phone":
        return _phone(text, phone_region)
    return _CLEANERS.get(type_, _name)(text)


def split_type(text: str) -> tuple[str, str]:
    """`Sarah:name` as its alias and type. Without a type the text tells it."""
    alias, colon, type_ = text.rpartition(":")
    if colon and alias.strip() and _TYPE.fullmatch(type_):
        return alias.strip(), type_
    return text.strip(), guess_type(text)


def guess_type(text: str) -> str:
    """Guess what kind of alias a text is."""
    text = text.strip()
    for type_, pattern in (("url", _URL), ("email", _EMAIL), ("handle", _HANDLE), ("phone", _PHONE)):
        if pattern.fullmatch(text):
            return type_
    return NAME


def _name(text: str) -> str:
    # Cleaned again after folding: some letters fold to several, which may compose anew.
    folded = unicodedata.normalize("NFKC", storable(text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def _email(text: str) -> str:
    return _name(text).removeprefix("mailto:").strip("<>")


def _handle(text: str) -> str:
    return _name(text).lstrip("@")


def _url(text: str) -> str:
    """Host and path: scheme, `www.`, a default port, a fragment and a last slash tell nobody apart."""
    cleaned = unicodedata.normalize("NFKC", storable(text)).strip()
    try:
        parts = urlsplit(cleaned if "://" in cleaned else f"https://{cleaned}")
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return _name(text)
    shown_port = f":{port}" if port and port != _DEFAULT_PORTS.get(parts.scheme) else ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{shown_port}{parts.path.rstrip('/')}{query}" if host else _name(text)


def _phone(text: str, region: str) -> str:
    """E.164 where the number can be read; its digits where it cannot, as without a country."""
    # Imported at first use: its tables of all countries take long to load.
    import phonenumbers

    cleaned = unicodedata.normalize("NFKC", storable(text)).strip().removeprefix("tel:")
    try:
        number = phonenumbers.parse(cleaned, region.upper() or None)
    except phonenumbers.NumberParseException:
        return re.sub(r"\D", "", cleaned)
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


_CLEANERS: Final[dict[str, Callable[[str], str]]] = {
    NAME: _name,
    "email": _email,
    "handle": _handle,
    "url": _url,
}
