"""An empty ledger of agents for each test."""

import pytest

from unit.ledgers.agents.conversation import Conversation


@pytest.fixture
def talk() -> Conversation:
    return Conversation()
