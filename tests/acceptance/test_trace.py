"""What a message cost, as `nexus trace` tells it, is what the provider counted."""

import json
from typing import Any

import pytest

from acceptance.agents import environment, finish
from acceptance.program import nexus
from apps import send
from nexus.home import Home
from nexus.testing import ModelServer, Turn


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_the_sum_of_a_message_with_a_worker_is_the_providers_own_count(
    home: Home, server: ModelServer, wire: str
) -> None:
    server.when(last_user="Find the date").script("It is on Friday.")
    server.script(
        Turn("", [send("dispatch", text="Find the date")]),
        Turn("", [send("wait")]),
        "The party is on Friday.",
    )
    ran = finish(home, environment(server, wire), "run", "When is the party?")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "The party is on Friday.\n"

    [listed] = json.loads(nexus(home.root, "trace", "--json").stdout)
    told: dict[str, Any] = json.loads(nexus(home.root, "trace", listed["id"], "--json").stdout)
    counted = server.totals().usage
    assert told["total"]["calls"] == 4
    for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"):
        assert told["total"][name] == getattr(counted, name), name
    assert counted.cache_read_tokens > 0
    shown = nexus(home.root, "trace", listed["id"]).stdout
    assert "request worker “Find the date”" in shown
    assert "∑ 4 model calls" in shown
