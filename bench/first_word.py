"""How long after a word of an answer has arrived in a browser it can be seen.

`python bench/first_word.py [ANSWERS]`, with `tests` in PYTHONPATH. A real home and Chromium.
Arrival is when the page's script gets the first `text` event of an answer; seen is when the frame that shows
it was drawn.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from acceptance.agents import environment
from acceptance.running import Served
from nexus import ledgers
from nexus.home import Home
from nexus.ledgers import attach
from nexus.testing import ModelServer, Turn
from nexus.testing.model_server.turn import Pace

_WATCH = """
window.measured = [];
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (kind, act, ...rest) {
  if (kind !== "delta") return listen.call(this, kind, act, ...rest);
  let first = true;
  return listen.call(this, kind, (event) => {
    const arrived = performance.now();
    act(event);
    if (first && JSON.parse(event.data).kind === "text") {
      first = false;
      const look = () => {
        const shown = [...document.querySelectorAll(".answer .prose")].at(-1);
        if (!shown || !shown.textContent) return requestAnimationFrame(look);
        // The next task comes after the frame was drawn.
        setTimeout(() => window.measured.push(performance.now() - arrived));
      };
      requestAnimationFrame(look);
    }
  }, ...rest);
};
"""


def main(answers: int) -> None:
    with tempfile.TemporaryDirectory() as folder, ModelServer() as model, sync_playwright() as playwright:
        home = Home(Path(folder) / "home")
        home.create()
        ledgers.create(home)
        attach.ensure(home)
        served = Served(home, environment(model), "--port", "0")
        try:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(bypass_csp=True)
            page.set_default_timeout(120_000)
            page.add_init_script(_WATCH)
            token = {"authorization": f"Bearer {home.token()}"}
            link = httpx.post(f"{served.url}/api/login-links", headers=token, timeout=60).json()["url"]
            page.goto(link)
            page.wait_for_url("**/")
            page.goto(f"{served.url}/chat")
            for number in range(answers):
                model.script(Turn("Take the **early** train. " * 40, pace=Pace(between_ms=20)))
                page.get_by_label("Message", exact=True).fill(f"Question {number}")
                page.keyboard.press("Enter")
                page.wait_for_function(f"window.measured.length > {number}")
                page.wait_for_function("!document.querySelector('.pending')")
            found = sorted(page.evaluate("window.measured"))
            browser.close()
        finally:
            served.stop()
    worst = found[max(0, round(0.95 * len(found)) - 1)]
    print(
        f"{len(found)} answers: median {statistics.median(found):.1f} ms, p95 {worst:.1f} ms, "
        f"max {found[-1]:.1f} ms"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
