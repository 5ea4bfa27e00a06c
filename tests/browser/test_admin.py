"""The page of whoever manages a host, on a desktop and a phone: the login works, and both are accessible."""

from collections.abc import Iterator
from typing import Any, Literal, cast

import pytest
from playwright.sync_api import Browser, expect

from acceptance.test_host import command, serving
from browser.test_accessible import (
    _AXE,  # pyright: ignore[reportPrivateUsage] - the same check
    _SERIOUS,  # pyright: ignore[reportPrivateUsage] - the same check
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The port of a host with a home, and its admin token."""
    root = tmp_path_factory.mktemp("admin") / "host"
    assert command(root, "add", "ada").returncode == 0
    assert command(root, "limit", "ada", "--rate-per-s", "7").returncode == 0
    token = command(root, "token", "--admin").stdout.strip()
    with serving(root) as (_, port):
        yield port, token


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_an_admin_logs_in_and_sees_the_homes(
    host: tuple[int, str], browser: Browser, width: int, theme: Literal["light", "dark"]
) -> None:
    port, token = host
    with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme) as context:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        wrong: dict[str, Any] = {}
        for name in ("login", "homes"):
            page.evaluate(_AXE)
            if found := cast("list[Any]", page.evaluate(_SERIOUS)):
                wrong[name] = found
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if name == "login":
                page.get_by_label("Admin token").fill("wrong")
                page.get_by_role("button", name="Log in").click()
                expect(page.get_by_text("That is not an admin token.")).to_be_visible()
                page.get_by_label("Admin token").fill(token)
                page.get_by_role("button", name="Log in").click()
                expect(page.get_by_role("heading", name="1 home")).to_be_visible()
        expect(page.get_by_text("ada", exact=True)).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Admin token")).to_be_visible()
        assert not wrong, wrong
