"""What a role is told of itself."""

from pathlib import Path

import pytest

from nexus.automations import workspace
from nexus.automations.workspace import SKILLS, Workspace, notes_for
from nexus.roles import services


@pytest.mark.parametrize("is_owners", [True, False])
def test_what_was_learned_and_noted_is_told_in_the_owners_conversations_alone(
    tmp_path: Path, is_owners: bool
) -> None:
    own, peer = tmp_path / "memory-writer", tmp_path / "memory-reader"
    workspace.bootstrap(own, "# Memory writer\n")
    workspace.bootstrap(peer, "# Memory reader\n")
    (own / SKILLS).write_text("# Skills\n- Ask about Sarah's divorce\n")
    (peer / notes_for("memory-writer")).write_text("# Notes\n- The safe is behind the painting\n")

    told = services.write_role_context(
        Workspace.at(own, {"memory-reader": peer}), "memory-writer", is_owners=is_owners
    )

    assert "# Memory writer" in told
    assert ("divorce" in told, "painting" in told) == (is_owners, is_owners)
