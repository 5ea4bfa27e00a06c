"""The ROLE.md of a role that is no automation: seeded for people to edit, and read at each run."""

import pytest

from nexus.home import Home
from nexus.roles.services import WITHOUT_AUTOMATION, load_role, role_text, seed_roles


@pytest.mark.parametrize("name", sorted(WITHOUT_AUTOMATION))
def test_an_edited_role_is_what_the_role_is_told(home: Home, name: str) -> None:
    seed_roles(home)
    file = home.meeseeks / name / "ROLE.md"
    assert load_role(home, name) == file.read_text() == role_text(WITHOUT_AUTOMATION[name])

    file.write_text("Conclude nothing.\n")
    seed_roles(home)
    assert load_role(home, name) == "Conclude nothing."


def test_a_role_without_a_workspace_is_told_what_it_ships_with(home: Home) -> None:
    assert load_role(home, "reflection") == role_text("nexus.roles.reflection")
