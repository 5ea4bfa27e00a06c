"""`nexus usage` shows what was spent, and says where a price is missing."""

from click.testing import CliRunner

from contents import writing
from nexus.cli import program
from nexus.home import Home
from unit.ledgers.runtime.lineage import ROOT, Lineage


def shown(home: Home, *options: str) -> str:
    result = CliRunner().invoke(program, ["--home", str(home.root), "usage", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_calls_without_a_known_price_are_counted_with_the_setting_that_gives_one(home: Home) -> None:
    runtime = writing(home, "runtime")
    Lineage(runtime).write()
    runtime.close()
    told = shown(home)
    assert "4 calls to models" in told
    assert 'Of these, 1 call had no known price. Set one in `[prices."provider/model"]`' in told
    assert ROOT in told, "the most expensive message"


def test_where_no_price_is_known_no_message_is_the_dearest(home: Home) -> None:
    runtime = writing(home, "runtime")
    Lineage(runtime).write()
    runtime.execute("UPDATE usage SET cost_microusd = NULL")
    runtime.close()
    told = shown(home)
    assert "4 calls had no known price" in told
    assert "dearest" not in told


def test_tokens_are_one_number_unless_details_are_asked_for(home: Home) -> None:
    runtime = writing(home, "runtime")
    Lineage(runtime).write()
    runtime.close()

    def columns(told: str) -> list[str]:
        return next(line.split() for line in told.splitlines() if line.startswith("model"))

    told = shown(home)
    assert "4 calls to models, 311 tokens, at least $0.0015" in told
    assert columns(told) == ["model", "calls", "tokens", "cost"]
    assert told.index("most expensive message") < told.index(ROOT), "its id comes last"
    assert columns(shown(home, "--details")) == [
        *("model", "calls", "fresh", "cached", "written", "out", "cost")
    ]
