"""Whether the receiving mail server vouches for the From of a mail: Authentication-Results (RFC 8601).

Anybody can write any From, and any header. What counts is the topmost Authentication-Results under the name
of the owner's own mail server, which must remove such headers from what it receives.
"""

import re
from collections.abc import Iterator
from email.message import Message as Mail
from typing import Any, Final, cast

_MAX_CHARACTERS: Final = 20_000
_BY: Final = re.compile(r"^from .*? by ([\w.-]+)", re.IGNORECASE)
_QUOTE, _ESCAPE = '"', "\\"


def is_vouched_for(mail: Mail, domain: str, server: str) -> bool:
    """Whether that server found that the mail comes from the domain of its From.

    DMARC says so, or a DKIM signature or SPF's envelope sender of that domain passed.
    """
    if not server:
        return False
    for name, results in _headers(mail):
        if name == server.casefold():
            return any(_passes(result, domain.casefold()) for result in results)
    return False


def server_of(mail: Mail) -> str:
    """The name in the topmost Authentication-Results; empty if there is none."""
    return next((name for name, _ in _headers(mail)), "")


def receiving_server(mail: Mail) -> str:
    """The name under which the server that received a mail vouches for it; empty if it doesn't.

    A server puts its own headers above those it received, so the topmost `Received: from … by …` is its own.
    What claims to be its Authentication-Results must have a name of the same domain.
    """
    name = server_of(mail)
    for value in cast("list[Any]", mail.get_all("Received", [])):
        found = _BY.search(" ".join(str(value)[:_MAX_CHARACTERS].split()))
        if found:
            is_same = name.split(".")[-2:] == found.group(1).casefold().split(".")[-2:]
            return name if is_same and "." in name else ""
    return ""


def _headers(mail: Mail) -> Iterator[tuple[str, list[list[str]]]]:
    for value in cast("list[Any]", mail.get_all("Authentication-Results", [])):
        statements = _statements(str(value)[:_MAX_CHARACTERS])
        if statements and statements[0]:
            yield statements[0][0].casefold(), statements[1:]


def _passes(result: list[str], domain: str) -> bool:
    if not result:
        return False
    pairs = [word.casefold().partition("=") for word in result]
    method, _, verdict = pairs[0]
    properties = {name: value for name, _, value in pairs[1:]}
    if verdict != "pass":
        return False
    match method.partition("/")[0]:
        case "dmarc":
            return properties.get("header.from") == domain
        case "dkim":
            signer = properties.get("header.d") or properties.get("header.i", "").rpartition("@")[2]
            # A domain may sign for those below it.
            return "." in signer and (domain == signer or domain.endswith(f".{signer}"))
        case "spf":
            return properties.get("smtp.mailfrom", "").rpartition("@")[2] == domain
        case _:
            return False


def _statements(text: str) -> list[list[str]]:
    """The words between semicolons. Comments are left out; what is quoted never ends a word."""
    statements: list[list[str]] = [[]]
    word: list[str] | None = None
    depth, is_quoted, characters = 0, False, iter(text)
    for character in characters:
        if character == _ESCAPE and (depth or is_quoted):
            escaped = next(characters, "")
            if is_quoted and word is not None:
                word.append(escaped)
        elif is_quoted:
            is_quoted = character != _QUOTE
            if is_quoted and word is not None:
                word.append(character)
        elif character == "(":
            depth += 1
        elif character == ")" and depth:
            depth -= 1
        elif depth:
            continue
        elif character == ";":
            _end(statements, word)
            statements.append([])
            word = None
        elif character.isspace():
            # "dkim = pass" is one statement's word as well.
            if word and word[-1] != "=":
                _end(statements, word)
                word = None
        else:
            if character == "=" and word is None and statements[-1]:
                word = [statements[-1].pop()]
            word = [] if word is None else word
            is_quoted = character == _QUOTE
            if not is_quoted:
                word.append(character)
    _end(statements, word)
    return statements


def _end(statements: list[list[str]], word: list[str] | None) -> None:
    if word:
        statements[-1].append("".join(word))
