"""Many browsers on one home while chats stream: is every update seen, and does memory stay flat?

    python bench/browsers.py [--browsers 50] [--minutes 10] [--write]        with `tests` in PYTHONPATH

One Chromium with a context of its own (cookies, cache, connections) for each browser, on a real `nexus up`.
Browsers share sessions by fives; one of each five writes, and all five must show the whole answer by
themselves, once. Memory is that of the serving process.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from report import Figure, machine, progress, table, write_section

from acceptance.agents import environment
from acceptance.running import Served
from nexus import ledgers
from nexus.home import Home
from nexus.ledgers import attach
from nexus.testing import ModelRequest, ModelServer, Turn
from nexus.testing.model_server.turn import Pace

_TOGETHER = 5
_PATIENCE_MS = 60_000
_SHOWN = (
    "number => [...document.querySelectorAll('article')].filter(a => a.textContent.includes(number)).length"
)


@dataclass
class Seen:
    """What was written, and what became of it on the screens."""

    messages: int = 0
    updates: int = 0
    missed: int = 0
    doubled: int = 0
    delays_ms: list[float] = field(default_factory=list[float])
    memory_mib: list[float] = field(default_factory=list[float])


def _answer(request: ModelRequest) -> Turn:
    marker = request.last_user.rsplit("#", 1)[-1][:9]
    return Turn(
        f"Take the early train. It is quiet at that hour. Done with {marker}.", pace=Pace(between_ms=20)
    )


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


def _opened(browser: Browser, home: Home, url: str, session: str) -> Page:
    page = browser.new_context(viewport={"width": 900, "height": 700}).new_page()
    page.set_default_timeout(_PATIENCE_MS)
    token = {"authorization": f"Bearer {home.token()}"}
    page.goto(httpx.post(f"{url}/api/login-links", headers=token, timeout=60).json()["url"])
    page.wait_for_url("**/")
    page.goto(f"{url}/chat/{session}")
    return page


def _round(pages: list[Page], number: int, seen: Seen) -> None:
    """One message in each session, then a look at every browser."""
    groups = [pages[first : first + _TOGETHER] for first in range(0, len(pages), _TOGETHER)]
    sent: list[tuple[str, float]] = []
    for place, group in enumerate(groups):
        marker = f"{number:04d}-{place:04d}"
        writer = group[number % len(group)]
        writer.get_by_label("Message", exact=True).fill(f"When do I leave? #{marker}")
        writer.keyboard.press("Enter")
        sent.append((marker, time.monotonic()))
        seen.messages += 1
    for (marker, began), group in zip(sent, groups, strict=True):
        for page in group:
            try:
                page.wait_for_function(
                    "marker => document.body.textContent.includes(`Done with ${marker}.`)"
                    " && !document.querySelector('.pending')",
                    arg=marker,
                )
                seen.updates += 1
                seen.delays_ms.append((time.monotonic() - began) * 1000)
            except Exception as error:  # a browser that shows nothing is what is looked for
                progress(f"missed {marker}: {type(error).__name__}")
                seen.missed += 1
            shown = page.evaluate(_SHOWN, f"Done with {marker}.")
            seen.doubled += max(0, int(shown) - 1)


def _measured(browsers: int, minutes: float) -> Seen:
    seen = Seen()
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model, sync_playwright() as playwright:
        model.always(_answer)
        home = Home(Path(folder) / "home")
        home.create()
        ledgers.create(home)
        attach.ensure(home)
        served = Served(home, environment(model), "--port", "0")
        try:
            chromium = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            pages = [
                _opened(chromium, home, served.url, f"talk-{place // _TOGETHER}") for place in range(browsers)
            ]
            progress(f"{browsers} browsers are open")
            end, number = time.monotonic() + minutes * 60, 0
            while time.monotonic() < end or number < 2:
                _round(pages, number, seen)
                seen.memory_mib.append(_resident_mib(served.pid))
                progress(f"round {number}: {seen.updates} updates, {seen.memory_mib[-1]:.0f} MiB")
                number += 1
            chromium.close()
        finally:
            served.stop()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--browsers", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--write", action="store_true", help="put the figures into bench/RESULTS.md")
    asked = parser.parse_args()
    seen = _measured(asked.browsers, asked.minutes)
    settled = seen.memory_mib[len(seen.memory_mib) // 4 :]
    wanted = seen.updates + seen.missed
    figures = [
        Figure("browsers, and minutes", f"{asked.browsers}, {asked.minutes:g}"),
        Figure("messages written, and answers that had to be seen", f"{seen.messages:,}, {wanted:,}"),
        Figure("answers that a browser didn't show", str(seen.missed), "0", seen.missed == 0),
        Figure("answers that a browser showed twice", str(seen.doubled), "0", seen.doubled == 0),
        Figure(
            "from writing to seen in a browser, p50 (two cores do all)",
            f"{statistics.median(seen.delays_ms):,.0f} ms",
        ),
        Figure(
            "resident memory: after a quarter of the time, at the end",
            f"{settled[0]:.0f}, {settled[-1]:.0f} MiB",
            "flat (10%)",
            settled[-1] <= settled[0] * 1.1,
        ),
    ]
    print(table(figures))
    if asked.write:
        write_section("browsers", f"## Many browsers on one home\n\n{machine()}\n\n{table(figures)}")


if __name__ == "__main__":
    main()
