"""Whether the receiving mail server vouches for the From of a mail: Authentication-Results (RFC 8601).

Anybody can write any From, and any header. What counts is the topmost Authentication-Results under the name
of the owner's own mail server, which must remove such headers from what it receives.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from nexus.history.mail_addresses import normalize_domain, organization
from nexus.history.mime import Mail
from nexus.text import join_lines

_MOST_HEADERS: Final = 50
_BY: Final = re.compile(r"^from .*? by ([\w.-]+)", re.IGNORECASE)
_QUOTE, _ESCAPE = '"', "\\"

Header = tuple[str, str]


def is_vouched_for(headers: Sequence[Header], domain: str, server: str) -> bool:
    """Whether that server found that the mail comes from the domain of its From.

    DMARC says so, or a DKIM signature or SPF's envelope sender of that domain passed.
    """
    if not server:
        return False
    for name, results in _results(headers):
        if name == server.casefold():
            return any(_passes(result, domain) for result in results)
    return False


def server_of(headers: Sequence[Header]) -> str:
    """Return the name in the topmost Authentication-Results; empty if there is none."""
    return next((name for name, _ in _results(headers)), "")


def is_vouched_for_on_arrival(mail: Mail, domain: str) -> bool:
    """Whether the server that received a mail vouches for it, where nobody says which one that is.

    A server puts its headers above those it received, so the topmost `Received: from … by …` is its own, and
    from the next one on the headers came with the mail. Its Authentication-Results must be above that, under
    a name of the same organization.
    """
    hops = 0

    def is_own(header: Header) -> bool:
        nonlocal hops
        hops += header[0] == "received" and _received_by(header[1]) != ""
        return hops <= 1

    own = list(takewhile(is_own, mail.headers))
    received = next(filter(None, (_received_by(value) for name, value in own if name == "received")), "")
    server = server_of(own)
    if not organization(server) or organization(server) != organization(received):
        return False
    return is_vouched_for(own, domain, server)


def _received_by(value: str) -> str:
    found = _BY.search(join_lines(value))
    return found[1] if found else ""


def _results(headers: Sequence[Header]) -> Iterator[tuple[str, list[list[str]]]]:
    for value in [value for name, value in headers if name == "authentication-results"][:_MOST_HEADERS]:
        statements = _statements(value)
        if statements and statements[0]:
            yield statements[0][0].casefold(), statements[1:]


def _passes(result: list[str], domain: str) -> bool:
    if not result:
        return False
    pairs = [word.partition("=") for word in result]
    method, _, verdict = (each.casefold() for each in pairs[0])
    properties = {name.casefold(): normalize_domain(value.rpartition("@")[2]) for name, _, value in pairs[1:]}
    if verdict != "pass" or not domain:
        return False
    match method.partition("/")[0]:
        case "dmarc":
            return properties.get("header.from") == domain
        case "dkim":
            signer = properties.get("header.d") or properties.get("header.i", "")
            # A domain may sign for those below it, unless everybody registers there.
            return organization(signer) != "" and (domain == signer or domain.endswith(f".{signer}"))
        case "spf":
            return properties.get("smtp.mailfrom") == domain
        case _:
            return False


def _statements(text: str) -> list[list[str]]:
    """Return the words between semicolons. Comments are left out; what is quoted never ends a word."""
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
