"""The nightly exam, installed as its README says and run on a home."""

from contents import execute, writing
from installed import EXAMPLES, install
from nexus.automations.kit import Kit
from nexus.home import Home
from nexus.ledgers.memory import NewFact, append_facts

NAME = "nightly-exam"
SCRIPT = EXAMPLES / NAME / "nightly_exam.py"


def test_it_writes_only_if_the_memory_got_worse(home: Home) -> None:
    install(NAME)
    ledger = writing(home, "memory")
    append_facts(ledger, [NewFact(fact="The tea is in the blue tin")])
    ledger.close()
    kit = Kit(folder=home.state / "meeseeks")

    assert kit.run(SCRIPT, hook_point="schedule") is None

    # As if the fact had had its source that night.
    execute(home, "memory", "DELETE FROM exam_findings WHERE kind = 'source'")
    told = kit.run(SCRIPT, hook_point="schedule")["response"]
    assert told.startswith("The memory did worse than in the last exam.")
    assert "1 source" in told
