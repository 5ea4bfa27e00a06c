"""No name, however it is put together, leads out of a workspace or of a peer's."""

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nexus.automations import workspace
from nexus.automations.workspace import Folder, Workspace
from nexus.errors import WorkspaceError

_TRAPS = """
.. . / // ~ .git inner link_out link_up link_file link_home SKILLS.md skills secret %2e%2e ..\\ \u2024\u2024
"""
_PARTS = st.one_of(st.sampled_from([*_TRAPS.split(), "", "\0", "..\0", " ..", ".. "]), st.text(max_size=8))


def _joined(lead: str, parts: list[str]) -> str:
    return lead + "/".join(parts)


_NAMES = st.builds(_joined, st.sampled_from(["", "/", "./", "../"]), st.lists(_PARTS, max_size=6))
_SECRET = "the secret outside"


def _laid_out(root: Path) -> Workspace:
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret").write_text(_SECRET)
    for name in ("reader", "writer"):
        path = root / "meeseeks" / name
        path.parent.mkdir(exist_ok=True)
        workspace.bootstrap(path, f"# {name}\n")
        (path / "inner").mkdir()
        for at in (path, path / "inner"):
            (at / "link_out").symlink_to(outside)
            (at / "link_up").symlink_to("..")
            (at / "link_file").symlink_to(outside / "secret")
            (at / "link_home").symlink_to("../../outside")
    return Workspace.at(root / "meeseeks" / "reader", {"writer": root / "meeseeks" / "writer"})


def _everything(folder: Path) -> dict[str, bytes]:
    plain = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path): path.read_bytes() for path in plain}


def _tried(folder: Folder, name: str, content: str) -> None:
    for attempt in (lambda: folder.read(name), lambda: folder.write(name, content)):
        try:
            got = attempt()
        except WorkspaceError:
            continue
        assert got != _SECRET
        # What could be reached is really below it.
        assert os.path.realpath(folder.path / name).startswith(f"{os.path.realpath(folder.path)}/")


@settings(max_examples=300, deadline=None)
@given(names=st.lists(_NAMES, min_size=1, max_size=4), content=st.text(max_size=20))
def test_nothing_outside_is_read_or_written(names: list[str], content: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        made = _laid_out(root)
        folders = [made.folder, made.peers["writer"].folder]
        for folder in folders:
            others = [root / "outside", *(other.path for other in folders if other != folder)]
            before = [_everything(other) for other in others]
            for name in names:
                _tried(folder, name, content)
            assert [_everything(other) for other in others] == before
