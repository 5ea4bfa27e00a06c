"""A worker's request belongs to its parent's lineage and never reaches further."""

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from nexus.request import EVERYTHING, Access, Agent, Event, Grant, Request, Visibility

_HELD = Access(
    level="owner",
    tools=frozenset({"read", "bash"}),
    directories=(Grant(path="/home/ada/notes"), Grant(path="/home/ada/desk", writable=True)),
)


def _request(access: Access = _HELD) -> Request:
    return Request(event=Event(content="Hello"), access=access, principal_id="ent_1")


def test_a_request_without_a_parent_is_its_own_root() -> None:
    request = _request()
    assert request.root_request_id == request.request_id


def test_a_child_keeps_root_and_principal_and_goes_one_deeper() -> None:
    root = _request()
    child = root.child(content="Look it up", agent=Agent(role="worker", session_label="worker:1"))
    grandchild = child.child(content="And this", agent=Agent(role="worker", session_label="worker:2"))
    assert grandchild.root_request_id == root.request_id
    assert grandchild.parent_request_id == child.request_id
    assert (grandchild.depth, grandchild.principal_id, grandchild.access) == (2, "ent_1", _HELD)


def test_what_is_asked_for_and_not_held_is_not_given() -> None:
    asked = Access(
        tools=frozenset({"read", "write"}),
        directories=(
            Grant(path="/home/ada/notes", writable=True),
            Grant(path="/home/ada/desk/drafts", writable=True),
            Grant(path="/home/ada/desk/../keys"),
            Grant(path="/etc"),
        ),
        network=True,
    )
    given_access = _request().child(content="x", agent=Agent(), access=asked).access
    assert given_access.tools == {"read"}
    assert given_access.directories == (Grant(path="/home/ada/desk/drafts", writable=True),)
    assert not given_access.network
    assert given_access.level == "owner"


_TOOLS = st.none() | st.frozensets(st.sampled_from(["read", "write", "bash", "edit"]))
_GRANTS = st.lists(
    st.builds(Grant, path=st.sampled_from(["/a", "/a/b", "/a/b/c", "/ab", "/"]), writable=st.booleans())
).map(tuple)
_ACCESS = st.builds(Access, tools=_TOOLS, directories=_GRANTS, network=st.booleans())


@given(_ACCESS, _ACCESS)
def test_narrowing_never_widens(held: Access, asked: Access) -> None:
    got = held.within(asked)
    assert not got.network or held.network
    for tool in ("read", "write", "bash", "edit"):
        assert not got.may_call(tool) or held.may_call(tool)
    for path in ("/", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/ab"):
        assert _right(got, path) <= _right(held, path)


def test_what_is_read_only_inside_a_writable_directory_stays_so() -> None:
    held = Access(directories=(Grant(path="/desk", writable=True), Grant(path="/desk/keys")))
    assert held.narrow(directories=(Grant(path="/desk/keys", writable=True),)).directories == ()
    assert held.narrow(directories=(Grant(path="/desk", writable=True),)).directories == held.directories


def _right(access: Access, path: str) -> int:
    """0: nothing, 1: reading, 2: writing; the innermost grant decides, and of equal ones the last."""
    over = [grant for grant in access.directories if PurePosixPath(path).is_relative_to(grant.path)]
    over.sort(key=lambda grant: len(PurePosixPath(grant.path).parts))
    return 1 + over[-1].writable if over else 0


def test_what_may_be_known_follows_from_the_memory_that_was_granted() -> None:
    own = Visibility(thread_ids=frozenset({"thr_1"}))
    assert Access(memory="all").visibility("thr_1") == EVERYTHING
    assert Access(memory="all").visibility("thr_1", in_company=True) == own
    assert Access(memory="own").visibility("thr_1") == own
    assert Access(memory="own").visibility(None).nothing
    assert Access(memory="none").visibility("thr_1").nothing


def test_what_was_said_is_heard_in_its_own_thread_or_where_everything_may_be_known() -> None:
    assert Access(memory="none").hears("thr_1", "thr_1")
    assert not Access(memory="own").hears("thr_1", "thr_2")
    assert not Access(memory="own").hears(None, None)
    assert Access(memory="all").hears("thr_1", "thr_2")


def test_rights_are_the_same_for_one_principal_with_one_access_only() -> None:
    guest = Access(level="known", memory="own")
    asked = Request(event=Event(content=""), principal_id="ent_1", access=guest)
    other = Request(event=Event(content=""), principal_id="ent_2", access=guest)
    wider = Request(event=Event(content=""), principal_id="ent_1", access=_HELD)
    assert asked.has_rights_of(asked)
    assert not asked.has_rights_of(other)
    assert not asked.may_know_all_of(wider)
    assert wider.may_know_all_of(asked)
    assert not wider.has_rights_of(asked)
