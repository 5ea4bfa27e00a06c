"""Under which names the gateway may be addressed."""

import pytest

from nexus.errors import ConfigError
from nexus.gateway.guard import origins, public_address, spellings


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("https://nexus.example", "https://nexus.example", "nexus.example"),
        ("https://Nexus.Example:443/", "https://nexus.example", "nexus.example"),
        ("https://nexus.example:8443", "https://nexus.example:8443", "nexus.example:8443"),
        ("http://nexus.lan:80", "http://nexus.lan", "nexus.lan"),
        ("http://nexus.lan:443", "http://nexus.lan:443", "nexus.lan:443"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]", "[2001:db8::1]"),
    ],
)
def test_an_address_is_written_as_browsers_write_it(url: str, origin: str, host: str) -> None:
    found = public_address(url)
    assert found is not None
    assert (found.origin, found.host, found.is_encrypted) == (origin, host, origin.startswith("https"))


@pytest.mark.parametrize(
    "url",
    [
        "nexus.example",
        "ftp://nexus.example",
        "https://",
        "https://a.example/nexus",
        "https://a:b",
        "https://[",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="public_url"):
        public_address(url)


def test_a_browser_leaves_the_usual_port_out() -> None:
    assert spellings(["Nexus.example:443", "nexus.lan:80", "nexus.lan:7807"]) == {
        "nexus.example:443",
        "nexus.example",
        "nexus.lan:80",
        "nexus.lan",
        "nexus.lan:7807",
    }
    assert origins("nexus.example:443") == {
        "http://nexus.example:443",
        "https://nexus.example:443",
        "https://nexus.example",
    }
    assert public_address("") is None
