"""A real CalDAV and CardDAV server, Radicale, for tests."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import httpx

from ports import free_port

USER: Final = "ada"
PASSWORD: Final = "correct horse"
_PATIENCE_S: Final = 120
_CONFIG: Final = """
[server]
hosts = 127.0.0.1:{port}
[auth]
type = htpasswd
htpasswd_filename = {folder}/users
htpasswd_encryption = plain
delay = 0
[storage]
filesystem_folder = {folder}/collections
[logging]
level = error
"""


class Radicale:
    """A server on this machine with one account. `stop` and `start` keep what is in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="radicale-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        (self.folder / "config").write_text(_CONFIG.format(port=self.port, folder=self.folder))
        (self.folder / "users").write_text(f"{USER}:{PASSWORD}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(auth=(USER, PASSWORD), timeout=300)

    def start(self) -> None:
        command = [sys.executable, "-m", "radicale", "--config", str(self.folder / "config")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.stop()
        self._client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, name: str, *, cards: bool = False, entries: str = "") -> str:
        """Make a calendar or an address book with entries, instead of the one of that name; its address."""
        url = f"{self.url}{USER}/{name}/"
        type_ = "text/vcard" if cards else "text/calendar"
        empty = "" if cards else "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//tests//EN\r\nEND:VCALENDAR\r\n"
        if cards and not entries:
            entries = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:nobody\r\nFN:Nobody\r\nEND:VCARD\r\n"
        answer = self._client.put(url, content=entries or empty, headers={"content-type": type_})
        assert answer.status_code == 201, answer.text
        return url

    def put(self, url: str, text: str) -> None:
        """Write an entry, whatever was there."""
        type_ = "text/vcard" if "VCARD" in text else "text/calendar"
        answer = self._client.put(url, content=text, headers={"content-type": type_})
        assert answer.is_success, answer.text

    def get(self, url: str) -> str:
        """Read an entry; empty if there is none."""
        answer = self._client.get(url)
        return answer.text if answer.is_success else ""

    def list_entries(self, url: str) -> list[str]:
        """List the addresses of a collection's entries."""
        answer = self._client.request("PROPFIND", url, headers={"depth": "1"})
        paths = [part.partition("</")[0] for part in answer.text.split("href>")[1:]]
        found = [f"{self.url}{path.lstrip('/')}" for path in paths if path.startswith("/")]
        return [each for each in found if each.startswith(url) and each != url]

    def delete(self, url: str) -> None:
        assert self._client.delete(url).is_success

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url, timeout=5).status_code < 500
        except httpx.TransportError:
            return False


def calendar(*events: str) -> str:
    """An iCalendar text with some events."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//tests//EN", *events, "END:VCALENDAR", ""]
    return "\r\n".join(lines).replace("\r\n\r\n", "\r\n")


def event(uid: str, title: str, start: str, end: str = "", *more: str) -> str:
    """An event, with times such as `20261203T143000Z` or `;VALUE=DATE:20261203`."""

    def line(name: str, moment: str) -> str:
        return f"{name}{moment if moment.startswith(';') else f':{moment}'}"

    lines = [
        "BEGIN:VEVENT",
        f"UID:{uid}",
        "DTSTAMP:20261101T080000Z",
        f"SUMMARY:{title}",
        line("DTSTART", start),
    ]
    return "\r\n".join([*lines, *([line("DTEND", end)] if end else []), *more, "END:VEVENT"])


def card(uid: str, name: str, *more: str) -> str:
    """A vCard."""
    return "\r\n".join(["BEGIN:VCARD", "VERSION:3.0", f"UID:{uid}", f"FN:{name}", *more, "END:VCARD", ""])
