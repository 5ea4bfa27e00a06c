"""Secrets: where they are stored, how they are read, and how they are redacted from everything else.

A setting never holds a secret. It holds a source: `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`.
"""

import hashlib
import json
import os
import re
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from nexus.errors import SecretError

_SECRET_NAME = re.compile(r"(authorization|api[-_]?key|token|secret|password|cookie)$", re.IGNORECASE)
_KINDS = ("env:", "file:", "keyring:")
_QUERY_SECRETS = frozenset({"key", "auth", "sig", "signature", "code", "pass", "pwd"})
_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_MASK = "[secret]"
_SERVICE = "nexus"
# Shorter ones occur in ordinary text, which must not be masked.
_LEAST_MASKED = 6


def is_source(text: str) -> bool:
    """Return whether a setting names the source of a secret."""
    return text.startswith(_KINDS)


def read(source: str, environ: Mapping[str, str] = os.environ) -> str:
    """Read a secret; raise an error that says what to do if there is none. May block on a file or keyring."""
    kind, _, place = source.partition(":")
    if kind == "env":
        secret = environ.get(place, "")
    elif kind == "file":
        secret = _read_file(Path(place).expanduser())
    elif kind == "keyring":
        secret = _read_keyring(place)
    else:
        raise SecretError(
            "The setting names no place for the secret",
            hint="Use `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`.",
        )
    if not secret.strip():
        raise SecretError(f"No secret found at {source}", hint=_suggest_fix(kind, place))
    return secret.strip()


def digest(secret: str) -> bytes:
    """Return the digest that is stored or compared instead of a secret."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()


def is_named(name: str) -> bool:
    """Return whether the value of a header or variable of this name must be a secret."""
    return _SECRET_NAME.search(name) is not None


def in_url(text: str, *, variables: bool = False) -> bool:
    """Return whether a URL contains a secret: a password or token before its host, or in its query.

    With `variables`, one that is named as `env:NAME` is none.
    """
    if "://" not in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return "@" in text
    user, password = _split_userinfo(parts)
    # A name alone is no secret for a database; to a web server it is often the token.
    held = password or (user if parts.scheme in {"http", "https"} else "")
    inside = [(name, value) for name, value in parse_qsl(parts.query) if value]
    secret = [value for name, value in inside if is_named(name) or name.lower() in _QUERY_SECRETS]
    return any(not (variables and _VARIABLE.fullmatch(each)) for each in (*secret, *filter(None, [held])))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Address:
    """A URL whose credentials were read from the variables that it names, as in `?token=env:TOKEN`.

    It has no `repr`: it is for use, never for showing.
    """

    url: str
    """The URL with its credentials in it."""
    plain: str
    """The URL without them."""
    authorization: str
    """The header that says what stood before the host; empty: nothing did."""
    query: Mapping[str, str]
    """The parameters that are secret."""
    secrets: tuple[str, ...]


def address(text: str, environ: Mapping[str, str] = os.environ) -> Address:
    """Read the variables that a URL names; one that is not set is an error."""
    parts = urlsplit(text)
    if "env:" not in text:
        return Address(url=text, plain=text, authorization="", query={}, secrets=())
    given = _split_userinfo(parts)
    user, password = (_read_value(each, environ) for each in given)
    host = parts.netloc.rpartition("@")[2]
    before = f"{quote(user, '')}:{quote(password, '')}@" if password else f"{quote(user, '')}@" * bool(user)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    read_ = [(name, _read_value(value, environ)) for name, value in pairs]
    secret = {name: value for (name, value), (_, was) in zip(read_, pairs, strict=True) if value != was}
    kept = urlencode([(name, value) for name, value in read_ if name not in secret])
    token = b64encode(f"{user}:{password}".encode()).decode()
    found = [*secret.values(), *(new for new, old in zip((user, password), given, strict=True) if new != old)]
    return Address(
        url=urlunsplit(parts._replace(netloc=before + host, query=urlencode(read_))),
        plain=urlunsplit(parts._replace(netloc=host, query=kept)),
        authorization=f"Basic {token}" if user or password else "",
        query=secret,
        secrets=(*found, *([token] if found and (user or password) else [])),
    )


def _split_userinfo(parts: SplitResult) -> tuple[str, str]:
    """Split what is before the host into a name and a password, each perhaps as `env:NAME`."""
    userinfo = parts.netloc.rpartition("@")[0]
    if _VARIABLE.fullmatch(userinfo):
        return userinfo, ""
    begins_with_source = _VARIABLE.match(userinfo)
    if begins_with_source and userinfo[begins_with_source.end() :].startswith(":"):
        return begins_with_source[0], userinfo[begins_with_source.end() + 1 :]
    user, _, password = userinfo.partition(":")
    return user, password


def _read_value(text: str, environ: Mapping[str, str]) -> str:
    return read(text, environ) if _VARIABLE.fullmatch(text) else unquote(text)


def source_in(text: str) -> str:
    """Return the source that a value names, alone or after a word as in `Bearer env:TOKEN`; empty if none."""
    last = text.rpartition(" ")[2]
    return last if is_source(last) and text.count(" ") < 2 else ""


def keep(secret: str, name: str, folder: Path) -> str:
    """Store a secret in this machine's keyring, else in a private file; return its source.

    `name` is a file's name; in the keyring the folder belongs to it, so that two homes keep to themselves.
    """
    user = f"{name}@{folder.parent}"
    if keyring_usable() and _store_in_keyring(secret, user):
        return f"keyring:{_SERVICE}/{user}"
    _write_file(folder / name, secret)
    return f"file:{folder / name}"


def replace(source: str, secret: str) -> None:
    """Store a secret in the place of one that `keep` stored."""
    kind, _, place = source.partition(":")
    if kind == "file":
        _write_file(Path(place).expanduser(), secret)
        return
    service, _, user = place.partition("/")
    if kind != "keyring" or not _store_in_keyring(secret, user, service):
        raise SecretError(f"Can't write the secret at {source}", hint="Name a file or an unlocked keyring.")


def delete(source: str) -> None:
    """Remove a secret that `keep` stored, if it is there."""
    kind, _, place = source.partition(":")
    if kind == "file":
        Path(place).expanduser().unlink(missing_ok=True)
    elif kind == "keyring":
        import keyring
        import keyring.errors

        service, _, user = place.partition("/")
        with suppress(keyring.errors.KeyringError):
            keyring.delete_password(service, user)


def _write_file(path: Path, secret: str) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    # A file of mkstemp's is its owner's alone, from its first byte on.
    descriptor, building = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(secret + "\n")
    Path(building).replace(path)


def keyring_usable() -> bool:
    """Return whether this machine has a writable keyring: its package is optional, servers have none."""
    try:
        import keyring
    except ImportError:
        return False
    return float(keyring.get_keyring().priority) > 0


def redact(text: str, known: Iterable[str]) -> str:
    """Replace the known secrets in a text, also in their quoted forms."""
    forms = {form for secret in known if len(secret) >= _LEAST_MASKED for form in _quoted_forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _MASK)
    return text


def pieces(secret: str) -> set[str]:
    """Return a secret and, if it consists of URLs, their secret parts: a password, a path, a value."""
    found = {secret}
    for parts in (urlsplit(word) for word in secret.split() if "://" in word):
        login, _, host = parts.netloc.rpartition("@")
        # Some services take their token in the place of the host.
        name = [] if "." in host or host.startswith("localhost") else [host, *host.split(":")]
        given = [
            *login.split(":"),
            *name,
            *parts.path.split("/"),
            *(value for _, value in parse_qsl(parts.query)),
        ]
        found |= {unquote(piece) for piece in given} | set(given)
    return {piece for piece in found if len(piece) >= _LEAST_MASKED}


@lru_cache(maxsize=1024)
def _quoted_forms(secret: str) -> tuple[str, ...]:
    """Return a secret as it is, and as errors, JSON and URLs show it."""
    return (
        secret,
        repr(secret)[1:-1],
        repr(secret.encode())[2:-1],
        json.dumps(secret)[1:-1],
        quote(secret, ""),
    )


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        hint = f"Run `chmod 600 '{path}'`." if isinstance(error, PermissionError) else f"Write it to {path}."
        raise SecretError(f"Can't read the secret in {path}: {reason}", hint=hint) from None


def _read_keyring(place: str) -> str:
    service, _, user = place.partition("/")
    try:
        import keyring
        import keyring.errors
    except ImportError:
        raise SecretError(
            "The keyring package is not installed",
            hint="Run `pip install nexus-runtime[keyring]`.",
        ) from None
    try:
        return keyring.get_password(service, user) or ""
    except keyring.errors.KeyringError as error:
        raise SecretError(
            f"The keyring failed: {error}", hint="Unlock it, or store the secret elsewhere."
        ) from None


def _store_in_keyring(secret: str, user: str, service: str = _SERVICE) -> bool:
    """Store a secret in the keyring; False if it stays locked."""
    import keyring
    import keyring.errors

    try:
        keyring.set_password(service, user, secret)
    except keyring.errors.KeyringError:
        return False
    return True


def _suggest_fix(kind: str, place: str) -> str:
    if kind == "env":
        return f"Set the environment variable {place}."
    if kind == "file":
        return f"Write it to {place}."
    return f"Run `keyring set {place.replace('/', ' ')}`."
