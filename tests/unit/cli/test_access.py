"""`nexus access` speaks of people by their names."""

from click.testing import CliRunner

from contents import writing
from nexus.cli import program
from nexus.home import Home
from nexus.ledgers.identity import access, senders
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Seen


def test_people_are_listed_by_name_and_their_ids_on_demand(home: Home) -> None:
    identity = writing(home, "identity")
    ben = senders.resolve(identity, Seen(channel="test", identifier="ben", display_name="Ben"))
    access.grant(identity, ben.entity_id, Granted(), "owner")
    identity.close()

    def listed(*options: str) -> str:
        return CliRunner().invoke(program, ["--home", str(home.root), "access", "list", *options]).stdout

    assert listed() == "allowed  Ben: memory own\n"
    assert listed("--ids") == f"allowed  Ben: memory own  {ben.entity_id}\n"
