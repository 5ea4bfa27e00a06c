"""`nexus reflect` as a person uses it: an answer, its sources, and what was taken out."""

import json
import re

from acceptance.agents import environment, finish
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn


def _answer(request: ModelRequest) -> str:
    found = re.findall(r"- \[(fact_\w+)\]", str(request.json["messages"]))
    return f"Jasmine tea [{found[0]}], they say [fact_01M7INVENTED000000000000000]."


def test_a_question_is_answered_with_sources_and_kept(home: Home, server: ModelServer) -> None:
    env = environment(server)
    who = {"operation": "entity", "id": "ent_tyler", "name": "Tyler", "type": "Person"}
    fact = {"operation": "fact", "about": "ent_tyler", "fact": "Tyler likes jasmine tea"}
    assert finish(home, env, "memory", "write", "batch", stdin=json.dumps([who, fact])).returncode == 0
    server.script(Turn("", [ToolCall("search_facts", {"query": "Which tea does Tyler like?"})]), _answer)

    asked = finish(home, env, "reflect", "Which tea does Tyler like?", "--save", "Tyler and tea")

    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith("Jasmine tea [fact_")
    assert "INVENTED" not in asked.stdout
    assert re.search(r"Sources\n.*Tyler likes jasmine tea +fact_", asked.stdout, re.DOTALL)
    assert "1 source cited without a match, removed: fact_01M7INVENTED" in asked.stderr
    kept = json.loads(finish(home, env, "reflect", "--list", "--json").stdout)
    assert [(each["name"], each["question"], each["version"]) for each in kept] == [
        ("Tyler and tea", "Which tea does Tyler like?", 1)
    ]
