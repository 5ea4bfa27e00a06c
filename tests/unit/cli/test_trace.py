"""`nexus trace` shows the tree, the sums and the list."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from contents import writing
from nexus.cli import program
from nexus.errors import MissingError
from nexus.home import Home
from nexus.ledgers import events
from unit.ledgers.runtime.lineage import ROOT, WORKER, Lineage


@pytest.fixture
def traced(home: Home) -> Home:
    """A home with one lineage, whose message is in the events ledger."""
    runtime, said = writing(home, "runtime"), writing(home, "events")
    asked = events.NewEvent(channel="cli", content="When is\nthe party?")
    (event_id,) = events.append(said, [asked])
    Lineage(runtime).write()
    runtime.execute("UPDATE requests SET event_id = ? WHERE id = ?", (event_id, ROOT))
    runtime.close()
    said.close()
    return home


def run(home: Home, *arguments: str) -> Result:
    return CliRunner().invoke(program, ["--home", str(home.root), "trace", *arguments])


def lines(home: Home, *arguments: str) -> list[str]:
    result = run(home, *arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_a_trace_shows_the_tree_with_its_sums(traced: Home) -> None:
    shown = lines(traced, ROOT)

    assert shown[0].startswith(f"{ROOT} 2026-05-01 10:00:00")
    assert shown[1] == "“When is the party?”"
    body = [line for line in shown[3:] if line]
    assert body[0].startswith("request manager in main done +0.00 s")
    assert body[0].endswith("35 160 100 16 ≥$0.0015 ∑")
    assert body[2] == "│ ├─ model p/m ok +1.00 s 250 ms 10 0 100 5 $0.0010"
    assert body[3] == "│ ├─ tool agent_send ok +2.00 s 250 ms"
    assert body[4].startswith("│ ├─ request worker “Find the date” failed +2.10 s")
    assert body[4].endswith("20 50 0 7")
    assert body[-3] == "└─ run in meeseeks:memory-writer:main running +3.50 s … 4 0 0 1 $0.0000"
    assert body[-1] == (
        "∑ 4 model calls: 295 tokens in (54% from cache), 16 out, $0.0015, and 1 call without a known price"
    )


def test_a_sum_of_unknown_prices_is_unknown(traced: Home) -> None:
    runtime = writing(traced, "runtime")
    runtime.execute("UPDATE usage SET cost_microusd = NULL")
    runtime.close()
    assert lines(traced, ROOT)[-1] == (
        "∑ 4 model calls: 295 tokens in (54% from cache), 16 out, 4 calls without a known price"
    )


def test_an_error_is_told_once(traced: Home) -> None:
    told = [line for line in lines(traced, ROOT) if "no model answered" in line]
    assert told == ["✗ execution worker:1: ModelError: no model answered"]


def test_ids_are_shown_on_demand(traced: Home) -> None:
    assert not any("spn_3" in line for line in lines(traced, ROOT))
    assert any("spn_3" in line for line in lines(traced, ROOT, "--ids"))


def test_without_an_id_the_latest_are_listed(traced: Home) -> None:
    (listed,) = [line for line in lines(traced) if ROOT in line]

    assert listed.startswith("2026-05-01 10:00:00 When is the party? done")
    assert listed.endswith(f"295 16 ≥$0.0015 {ROOT}"), "its id comes last"
    assert not any(WORKER in line for line in lines(traced))


def test_a_home_without_requests_says_so(home: Home) -> None:
    assert lines(home) == ["No requests yet."]


def test_a_program_gets_the_tree_as_json(traced: Home) -> None:
    result = run(traced, ROOT, "--json")
    told: dict[str, Any] = json.loads(result.stdout)

    assert (told["id"], told["asked"], told["offset_ms"]) == (ROOT, "When is\nthe party?", 0.0)
    assert told["total"]["cost_microusd"] == 1_540
    worker = told["children"][0]["children"][2]
    assert (worker["kind"], worker["detail"]["task"]) == ("request", "Find the date")
    model = worker["children"][0]["children"][0]
    assert (model["kind"], model["usage"]["cache_read_tokens"], model["offset_ms"]) == ("model", 50, 3000.0)
    latest = json.loads(run(traced, "--json").stdout)
    assert [one["id"] for one in latest] == [ROOT]


def test_an_unknown_id_is_told_with_what_to_do(home: Home) -> None:
    error = run(home, "req_nowhere").exception

    assert isinstance(error, MissingError)
    assert "nexus trace" in error.hint
