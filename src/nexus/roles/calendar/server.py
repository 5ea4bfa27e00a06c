"""Calendars and address books as their servers give them: CalDAV, CardDAV, and iCalendar files.

One client serves both DAV protocols. It sends the password only to the server of the settings and to hosts of
the same registered domain, as some providers keep each account on a host of its own.
"""

import asyncio
import hashlib
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast
from urllib.parse import unquote, urljoin, urlsplit
from xml.sax.saxutils import escape

import httpx
from publicsuffixlist import PublicSuffixList

from nexus import extras, secrets
from nexus.config import CalendarConfig
from nexus.errors import ConfigError, NexusError

# A server may index a whole calendar before it answers for the first time.
_TIMEOUT: Final = httpx.Timeout(300.0, connect=30.0)
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_REDIRECTS: Final = 5
_MOST_COLLECTIONS: Final = 50
_GONE: Final = frozenset({404, 410})
_DAV: Final = "{DAV:}"
_CALDAV: Final = "{urn:ietf:params:xml:ns:caldav}"
_CARDDAV: Final = "{urn:ietf:params:xml:ns:carddav}"
_CS: Final = "{http://calendarserver.org/ns/}"
_SPACES: Final = (
    'xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav" xmlns:a="urn:ietf:params:xml:ns:carddav" '
    'xmlns:s="http://calendarserver.org/ns/"'
)
_EVENT: Final = re.compile(rb"(?ms)^BEGIN:VEVENT\r?$.*?^END:VEVENT\r?$")
_ZONE: Final = re.compile(rb"(?ms)^BEGIN:VTIMEZONE\r?$.*?^END:VTIMEZONE\r?$")
_UID: Final = re.compile(rb"(?mi)^UID[^:\r\n]*:(.*?)\r?$(?:\n[ \t](.*?)\r?$)*")

Kind = Literal["events", "cards"]


class CalendarError(NexusError):
    """A calendar's server can't be reached, or refuses what it was asked for."""


class ConflictError(CalendarError):
    """What is to be changed was changed on the server since it was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """A calendar or an address book. `state` differs whenever something in it changed, if it is known."""

    url: str
    name: str
    kind: Kind
    state: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One entry: where it is, which version, and its text, if it was fetched."""

    url: str
    etag: str
    data: bytes = b""


@dataclass(kw_only=True, slots=True)
class Changes:
    """What is different in a collection since a token. Where everything is listed, `is_whole`."""

    token: str
    changed: list[Resource] = field(default_factory=list[Resource])
    removed: list[str] = field(default_factory=list[str])
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a server says about one address: the properties that it has, and its status."""

    url: str
    status: int
    found: Mapping[str, Any]

    def text(self, name: str) -> str:
        return str(getattr(self.found.get(name), "text", None) or "").strip()

    def link(self, name: str) -> str:
        element = self.found.get(name)
        href = None if element is None else element.find(f"{_DAV}href")
        return "" if href is None else str(href.text or "").strip()


class Server:
    """A connection to the server of one calendar of the settings: `async with`."""

    def __init__(self, settings: CalendarConfig) -> None:
        url = secrets.read(settings.url) if secrets.is_source(settings.url) else settings.url
        self.url = re.sub(r"^webcals?://", "https://", url)
        self._password = secrets.read(settings.password) if settings.password else ""
        self._user = settings.user
        self._auth: httpx.Auth | None = httpx.BasicAuth(self._user, self._password) if self._user else None
        self._client = httpx.AsyncClient(verify=_ssl_context(), timeout=_TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @property
    def host(self) -> str:
        """Where it is, as people are told: the address may be a secret."""
        return urlsplit(self.url).hostname or Path(self.url).name

    async def find_collections(self, *, contacts: bool, direct: bool = False) -> list[Collection]:
        """Find the calendars of the account, or the one that the address names; with them address books.

        With `direct`, nothing else than what the address names.
        """
        found = [each for each in await self._list(self.url, "0") if each.kind == "events"]
        if found or direct:
            return found
        result: dict[str, Collection] = {}
        homes = {"events": f"{_CALDAV}calendar-home-set", "cards": f"{_CARDDAV}addressbook-home-set"}
        for kind, home in list(homes.items())[: 2 if contacts else 1]:
            place = await self._find_home(home, "caldav" if kind == "events" else "carddav")
            if place:
                result |= {each.url: each for each in await self._list(place, "1") if each.kind == kind}
        return list(result.values())[:_MOST_COLLECTIONS]

    async def find_changes(self, collection: Collection, token: str) -> Changes:
        """Find what changed since a token; without one, or if the server knows none, everything."""
        body = (
            f"<d:sync-collection {_SPACES}><d:sync-token>{escape(token)}</d:sync-token>"
            "<d:sync-level>1</d:sync-level><d:prop><d:getetag/></d:prop></d:sync-collection>"
        )
        changes = Changes(token=token, is_whole=not token)
        while True:
            status, content = await self._send("REPORT", collection.url, body, {"depth": "0"})
            if status in _GONE:
                raise _gone(collection)
            if status != 207:
                if token:  # it has expired
                    return await self.find_changes(collection, "")
                return await self._list_all(collection)
            root = await asyncio.to_thread(_parse, content)
            answers = list(_read(root, collection.url))
            for each in answers:
                if each.status in _GONE:
                    changes.removed.append(each.url)
                elif etag := each.text(f"{_DAV}getetag"):
                    changes.changed.append(Resource(url=each.url, etag=etag))
            before, changes.token = changes.token, str(root.findtext(f"{_DAV}sync-token") or "").strip()
            is_cut = any(each.status == 507 for each in answers)
            if not is_cut or changes.token == before:
                return changes
            body = body.replace(f"<d:sync-token>{escape(before)}<", f"<d:sync-token>{escape(changes.token)}<")

    async def fetch(self, collection: Collection, urls: Sequence[str]) -> list[Resource]:
        """Fetch entries by their addresses; those that are gone meanwhile are left out."""
        space, data = ("c", f"{_CALDAV}calendar-data")
        report = "calendar"
        if collection.kind == "cards":
            space, data, report = "a", f"{_CARDDAV}address-data", "addressbook"
        hrefs = "".join(f"<d:href>{escape(urlsplit(each).path)}</d:href>" for each in urls)
        body = (
            f"<{space}:{report}-multiget {_SPACES}><d:prop><d:getetag/><{space}:{data.rpartition('}')[2]}/>"
            f"</d:prop>{hrefs}</{space}:{report}-multiget>"
        )
        content = await self._ask("REPORT", collection.url, body, {"depth": "1"})
        root = await asyncio.to_thread(_parse, content)
        return [
            Resource(url=each.url, etag=each.text(f"{_DAV}getetag"), data=each.text(data).encode())
            for each in _read(root, collection.url)
            if each.text(data)
        ]

    async def put(self, url: str, data: bytes, etag: str) -> None:
        """Write an entry that still is the version of that etag; without one, a new entry."""
        condition = {"if-match": etag} if etag else {"if-none-match": "*"}
        headers = {"content-type": "text/calendar; charset=utf-8", **condition}
        await self._change("PUT", url, data, headers)

    async def delete(self, url: str, etag: str) -> None:
        """Delete an entry that still is the version of that etag."""
        await self._change("DELETE", url, b"", {"if-match": etag})

    async def read_file(self, version: str) -> tuple[str, list[Resource]] | None:
        """Read an ICS file or subscription, an entry for each event; None if it is that version still."""
        if "://" not in self.url:
            data, found = await asyncio.to_thread(_read_file, self.url), ""
        else:
            status, data, headers = await self._request("GET", self.url, b"", {"if-none-match": version})
            if status == 304:
                return None
            self._check(status)
            found = headers.get("etag", "")
        found = found or hashlib.sha256(data).hexdigest()
        if found == version:
            return None
        if b"BEGIN:VCALENDAR" not in data[:10_000].upper():
            raise ConfigError(f"{self.host} sent no calendar", hint="Give the address of an .ics file.")
        return found, await asyncio.to_thread(_split, data)

    async def _list(self, url: str, depth: str) -> list[Collection]:
        properties = (
            "<d:resourcetype/><d:displayname/><d:sync-token/><s:getctag/>"
            "<c:supported-calendar-component-set/>"
        )
        body = f"<d:propfind {_SPACES}><d:prop>{properties}</d:prop></d:propfind>"
        status, content = await self._send("PROPFIND", url, body, {"depth": depth})
        if status in _GONE or status == 405:
            return []
        self._check(status)
        found: list[Collection] = []
        for each in _read(await asyncio.to_thread(_parse, content), url):
            type_ = each.found.get(f"{_DAV}resourcetype")
            if type_ is None:
                continue
            is_calendar = type_.find(f"{_CALDAV}calendar") is not None
            if not is_calendar and type_.find(f"{_CARDDAV}addressbook") is None:
                continue
            holds: Any = each.found.get(f"{_CALDAV}supported-calendar-component-set")
            names = set[str]() if holds is None else {str(part.get("name")) for part in holds}
            if is_calendar and names and "VEVENT" not in names:
                continue
            name = each.text(f"{_DAV}displayname") or unquote(each.url.rstrip("/").rpartition("/")[2])
            state = each.text(f"{_DAV}sync-token") or each.text(f"{_CS}getctag")
            kind: Kind = "events" if is_calendar else "cards"
            found.append(Collection(url=each.url, name=name, kind=kind, state=state))
        return found

    async def _find_home(self, home: str, service: str) -> str:
        """Find where the account's calendars or address books are: by its principal, as RFC 6764 says."""
        space = "c" if service == "caldav" else "a"
        wanted = f"<d:current-user-principal/><{space}:{home.rpartition('}')[2]}/>"
        body = f"<d:propfind {_SPACES}><d:prop>{wanted}</d:prop></d:propfind>"
        for start in (self.url, urljoin(self.url, f"/.well-known/{service}"), urljoin(self.url, "/")):
            at = start
            for _ in range(2):
                status, content = await self._send("PROPFIND", at, body, {"depth": "0"})
                if status in _GONE or status == 405:
                    break
                self._check(status)
                answers = list(_read(await asyncio.to_thread(_parse, content), at))
                if place := next(filter(None, (each.link(home) for each in answers)), ""):
                    return urljoin(at, place)
                principal = next(
                    filter(None, (each.link(f"{_DAV}current-user-principal") for each in answers)), ""
                )
                if not principal:
                    break
                at = urljoin(at, principal)
        return ""

    async def _list_all(self, collection: Collection) -> Changes:
        """List everything: for servers without sync tokens."""
        body = f"<d:propfind {_SPACES}><d:prop><d:getetag/><d:resourcetype/></d:prop></d:propfind>"
        content = await self._ask("PROPFIND", collection.url, body, {"depth": "1"})
        answers = _read(await asyncio.to_thread(_parse, content), collection.url)
        listed = [
            Resource(url=each.url, etag=etag)
            for each in answers
            if (etag := each.text(f"{_DAV}getetag")) and each.url.rstrip("/") != collection.url.rstrip("/")
        ]
        return Changes(token="", changed=listed, is_whole=True)

    async def _change(self, method: str, url: str, data: bytes, headers: dict[str, str]) -> None:
        status, _, _ = await self._request(method, url, data, headers)
        if status in {409, 412} or (status in _GONE and method == "DELETE"):
            raise ConflictError("The event was changed on the server meanwhile", hint="Read it again.")
        self._check(status)

    async def _ask(self, method: str, url: str, body: str, headers: dict[str, str]) -> bytes:
        status, content = await self._send(method, url, body, headers)
        self._check(status)
        return content

    async def _send(self, method: str, url: str, body: str, headers: dict[str, str]) -> tuple[int, bytes]:
        text = f'<?xml version="1.0" encoding="utf-8"?>{body}'.encode()
        headers = {"content-type": "application/xml; charset=utf-8", **headers}
        status, content, _ = await self._request(method, url, text, headers)
        return status, content

    async def _request(
        self, method: str, url: str, data: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes, httpx.Headers]:
        """Send a request; redirects keep their method and body, which HTTP libraries change to GET."""
        for _ in range(_MOST_REDIRECTS):
            if not self._is_trusted(url):
                host = urlsplit(url).hostname
                raise CalendarError(f"{self.host} leads to {host}", hint="Use the address there instead.")
            try:
                async with self._client.stream(
                    method, url, content=data, headers=headers, auth=self._auth
                ) as answer:
                    parts, size = list[bytes](), 0
                    async for part in answer.aiter_bytes():
                        parts.append(part)
                        size += len(part)
                        if size > _MOST_BYTES:
                            raise CalendarError(f"{self.host} sent more than {_MOST_BYTES >> 20} MiB")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise CalendarError(
                    f"{self.host} doesn't answer: {type(error).__name__}",
                    hint="Check `url`; it is tried again.",
                ) from None
            if answer.status_code in {301, 302, 303, 307, 308} and "location" in answer.headers:
                url = urljoin(url, answer.headers["location"])
                continue
            offered = answer.headers.get("www-authenticate", "").lower()
            if answer.status_code == 401 and "digest" in offered and isinstance(self._auth, httpx.BasicAuth):
                self._auth = httpx.DigestAuth(self._user, self._password)
                continue
            return answer.status_code, b"".join(parts), answer.headers
        raise CalendarError(f"{self.host} redirects too often")

    def _is_trusted(self, url: str) -> bool:
        """Whether the password may be sent there: the same host, or over TLS one of the same domain."""
        own, other = urlsplit(self.url), urlsplit(url)
        if own.hostname == other.hostname:
            return (own.scheme, other.scheme) != ("https", "http")
        domain = _suffixes().privatesuffix(own.hostname or "")
        is_ours = domain is not None and domain == _suffixes().privatesuffix(other.hostname or "")
        return other.scheme == "https" and (is_ours or self._auth is None)

    def _check(self, status: int) -> None:
        if status in {401, 403}:
            raise ConfigError(
                f"{self.host} refuses the user or the password ({status})",
                hint="Check `user` and `password`; many providers want an app password.",
            )
        if not 200 <= status < 300:
            raise CalendarError(f"{self.host} answered {status}", hint="It is tried again later.")


async def check_login(settings: CalendarConfig) -> list[str]:
    """Log in, or read the file; returns what is there, by name. An error says what is wrong."""
    extras.require(
        "calendar", "Reading calendars", modules=("icalendar", "lxml", "recurring_ical_events", "vobject")
    )
    async with Server(settings) as server:
        if settings.kind == "ics":
            found = await server.read_file("")
            return [f"{len(found[1]):,} events"] if found else []
        collections = await server.find_collections(contacts=settings.contacts)
        if not any(each.kind == "events" for each in collections):
            raise no_calendars(server.host)
        return [each.name if each.kind == "events" else f"{each.name} (contacts)" for each in collections]


def no_calendars(host: str) -> ConfigError:
    """Make the error for a server without calendars at that address."""
    hint = "Give the CalDAV address of the account or of one calendar."
    return ConfigError(f"No calendars found at {host}", hint=hint)


def _gone(collection: Collection) -> CalendarError:
    return CalendarError(f"The calendar {collection.name} is gone")


@cache
def _ssl_context() -> Any:
    return httpx.create_ssl_context()


@cache
def _suffixes() -> Any:
    return PublicSuffixList()


def _parse(content: bytes) -> Any:
    """Parse XML without entities, external or not."""
    extras.require("calendar", "Reading calendars", modules=("lxml",))
    etree: Any = importlib.import_module("lxml.etree")  # it has no types
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise CalendarError("The server's answer is no XML", hint="Check the address.") from error


def _read(root: Any, base: str) -> Iterable[_Answer]:
    for response in root.iter(f"{_DAV}response"):
        href = str(response.findtext(f"{_DAV}href") or "").strip()
        found: dict[str, Any] = {}
        for stat in response.iter(f"{_DAV}propstat"):
            if _status(stat, 200) == 200:
                found |= {each.tag: each for prop in stat.iter(f"{_DAV}prop") for each in prop}
        yield _Answer(urljoin(base, href), _status(response, 200), cast("Mapping[str, Any]", found))


def _status(element: Any, default: int) -> int:
    words = str(element.findtext(f"{_DAV}status") or "").split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else default


def _read_file(place: str) -> bytes:
    path = Path(place).expanduser()
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}", hint="Check `url`.") from error


def _split(data: bytes) -> list[Resource]:
    """Split a calendar into its events, each with the time zones; instances of a series stay together."""
    data = data.replace(b"\r\n", b"\n")
    zones = b"\n".join(each[0] for each in _ZONE.finditer(data))
    events: dict[bytes, list[bytes]] = {}
    for match in _EVENT.finditer(data):
        uid = _UID.search(match[0])
        key = uid[1].strip() if uid else hashlib.sha256(match[0]).hexdigest().encode()
        events.setdefault(key, []).append(match[0])
    found: list[Resource] = []
    for uid, parts in events.items():
        text = b"\n".join((b"BEGIN:VCALENDAR", b"VERSION:2.0", zones, *parts, b"END:VCALENDAR", b""))
        name = hashlib.sha256(uid).hexdigest()
        found.append(Resource(url=name, etag=hashlib.sha256(text).hexdigest(), data=text))
    return found
