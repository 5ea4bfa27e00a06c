"""`nexus access` speaks of people by their names."""

import re

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


def test_who_asks_is_named_once_and_the_time_is_readable(home: Home) -> None:
    identity = writing(home, "identity")
    sam = senders.resolve(identity, Seen(channel="mail", identifier="sam@example.org"))
    code, _ = access.ask(identity, sam.contact_id)
    identity.close()

    def run(*arguments: str) -> str:
        return CliRunner().invoke(program, ["--home", str(home.root), "access", *arguments]).stdout

    assert re.fullmatch(
        rf"pending  {code}  sam@example.org \(mail\), until \d{{4}}-\d\d-\d\d \d\d:\d\d\n", run("list")
    )
    assert run("approve", code) == "sam@example.org (mail) may now talk to the agent (memory own).\n"
