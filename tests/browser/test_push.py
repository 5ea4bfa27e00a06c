"""Notifications in a real browser: turned on, sent encrypted, shown by the service worker, and revoked.

A browser without a network can't subscribe at its maker's push service, so that one step is replaced: the
page gets the subscription of a push service of the test, which opens each message as a browser would. What it
found is then handed to Chromium's own service worker.
"""

import json
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import PATIENCE_MS, Served
from browser.test_chat import _login  # pyright: ignore[reportPrivateUsage] - the same way in
from push_service import PushService

_SUBSCRIBED = """subscription => {
  const made = () => JSON.parse(localStorage.getItem("subscribed"));
  const shown = () => made() && {
    endpoint: subscription.endpoint,
    options: { applicationServerKey: Uint8Array.from(made()).buffer },
    toJSON: () => ({
      endpoint: subscription.endpoint, keys: { p256dh: subscription.p256dh, auth: subscription.auth },
    }),
    unsubscribe: async () => { localStorage.removeItem("subscribed"); return true; },
  };
  PushManager.prototype.getSubscription = async () => shown();
  PushManager.prototype.subscribe = async (options) => {
    if (!options.userVisibleOnly || options.applicationServerKey.length !== 65) throw new Error("no key");
    localStorage.setItem("subscribed", JSON.stringify([...options.applicationServerKey]));
    return shown();
  };
}"""
_LOOK = """patience_ms => {
  window.shown = navigator.serviceWorker.ready.then(async (ready) => {
    for (const until = Date.now() + patience_ms; Date.now() < until;) {
      const all = await ready.getNotifications();
      if (all.length) return all.map(each => [each.title, each.body, each.data.url]);
      await new Promise(resolve => setTimeout(resolve, 5));
    }
    return [];
  });
}"""

_SHOWN = "Promise.race([window.shown, new Promise(resolve => setTimeout(() => resolve(null), 5000))])"


@pytest.fixture(params=[1280, 390], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": request.param, "height": 844})
    context.grant_permissions(["notifications"], origin=served.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(_login(served))
    page.wait_for_url("**/")
    yield page
    page.request.post(f"{served.url}/logout", form={"everywhere": "yes"}, headers={"origin": served.url})
    context.close()


@pytest.fixture
def service() -> Iterator[PushService]:
    with PushService() as made:
        yield made


def test_notifications_are_turned_on_arrive_encrypted_and_are_revoked(
    served: Served, page: Page, service: PushService
) -> None:
    _turn_on(served, page, service)
    listed = page.locator(".pair")
    expect(listed).to_contain_text("Chrome on Linux")
    expect(listed).to_contain_text("this browser")
    page.get_by_role("button", name="Send a test").click()
    expect(listed).to_contain_text("last notified")
    (told,) = service.wait(1)
    assert told["body"] == "Notifications work."
    assert _show(page, served, told) == [["Nexus", "Notifications work.", "/notifications"]]
    page.goto(f"{served.url}/notifications")
    listed.get_by_role("button", name="Revoke").click()
    expect(page.locator("main")).to_contain_text("No browser gets notifications yet.")


def test_logging_out_ends_the_notifications_of_that_browser(
    served: Served, page: Page, service: PushService
) -> None:
    _turn_on(served, page, service)
    page.request.post(f"{served.url}/logout", headers={"origin": served.url})
    page.goto(_login(served))
    page.wait_for_url("**/")
    page.goto(f"{served.url}/notifications")
    expect(page.locator("main")).to_contain_text("No browser gets notifications yet.")


def test_a_scheduled_message_reaches_a_browser_that_has_no_page_open(
    served: Served, page: Page, service: PushService
) -> None:
    _turn_on(served, page, service)
    page.goto(f"{served.url}/chat/reminded")
    box = page.get_by_label("Message", exact=True)
    box.fill("/remind me in 2 seconds to stretch")
    box.press("Enter")
    page.get_by_role("button", name="Save reminder").click()
    page.goto("about:blank")
    told = service.wait(1)[0]
    assert "stretch" in told["body"]
    assert told["url"] == "/chat/reminded"
    page.goto(f"{served.url}/notifications")
    page.get_by_role("button", name="Turn off in this browser").click()
    expect(page.locator("main")).to_contain_text("No browser gets notifications yet.")


def _turn_on(served: Served, page: Page, service: PushService) -> None:
    """Subscribe this browser at the push service of the test."""
    page.add_init_script(f"({_SUBSCRIBED})({json.dumps(service.subscription())})")
    page.goto(f"{served.url}/notifications")
    page.get_by_role("button", name="Turn on in this browser").click()
    expect(page.locator(".pair")).to_have_count(1)


def _show(page: Page, served: Served, told: dict[str, str]) -> Any:
    """Hand a message to the service worker, as the browser does with what it has decrypted; what it shows."""
    page.goto(f"{served.url}/settings")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    session = cast("Any", page.context.new_cdp_session(page))  # its types are incomplete
    found: list[str] = []

    def note(event: dict[str, Any]) -> None:
        found.extend(str(each["registrationId"]) for each in event["registrations"])

    session.on("ServiceWorker.workerRegistrationUpdated", note)
    session.send("ServiceWorker.enable")
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not found:
        assert time.monotonic() < deadline, "Chromium names no service worker"
        page.wait_for_timeout(20)
    # Looked for from before it comes: the browser may take it away again.
    page.evaluate(_LOOK, PATIENCE_MS)
    pushed = {"origin": served.url, "registrationId": found[-1], "data": json.dumps(told)}
    while True:
        # A worker that is being stopped just now doesn't get it. It has a tag: twice is shown once.
        session.send("ServiceWorker.deliverPushMessage", pushed)
        shown = page.evaluate(_SHOWN)
        if shown is not None:
            return shown
