"""Exports cut, garbled and repeated at random: something is read or set aside, and nothing breaks."""

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus import history
from nexus.errors import NexusError
from nexus.history import json_stream
from nexus.history.items import Item, Mark, Message
from nexus.history.json_stream import BrokenJsonError
from unit.history.exports import chatgpt, long_conversation, mail

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK_BYTES", 5)


def _items(data: bytes, path: tuple[str, ...], limit: int = 10**6) -> list[Any]:
    return [raw.data for raw in json_stream.scan(io.BytesIO(data), lambda found: found == path, limit)]


@given(st.lists(_JSON), st.booleans(), st.sampled_from([None, 2]))
def test_a_scan_finds_what_a_parser_finds(values: list[Any], ascii_: bool, indent: int | None) -> None:
    data = json.dumps(values, ensure_ascii=ascii_, indent=indent).encode("utf-8", "surrogatepass")
    assert [json.loads(each) for each in _items(data, ("*",))] == json.loads(data)
    deep = json.dumps({"a": {"b": [{"c": values}]}, "z": values}, ensure_ascii=ascii_).encode(
        errors="replace"
    )
    assert [json.loads(each) for each in _items(deep, ("a", "b", "*", "c", "*"))] == json.loads(deep)["z"]


@given(st.lists(_JSON, min_size=1), st.data())
def test_a_document_that_is_cut_short_is_noticed(values: list[Any], data: st.DataObject) -> None:
    whole = json.dumps({"a": values}).encode()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(BrokenJsonError):
        _items(cut, ("a", "*"))


@given(st.text(min_size=50), st.lists(_JSON))
def test_an_item_that_is_too_large_is_passed_over(long: str, others: list[Any]) -> None:
    short = [each for each in others if len(json.dumps(each)) < 40]
    data = json.dumps([*short, {"x": long}, *short]).encode()
    kept = _items(data, ("*",), limit=45)
    assert kept[len(short)] is None
    assert [json.loads(each) for each in kept if each is not None] == short * 2


def _chatgpt() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return chatgpt(Path(folder, "x"), *(long_conversation(f"c{n}", 4) for n in range(3))).read_bytes()


_MBOX = (
    mail(1) + mail(2, Content_Type="multipart/mixed; boundary=X", body="--X\n\nhi\n--X--") + mail(3)
).encode()
_JSONL = b"\n".join(json.dumps({"id": n, "role": "user", "text": f"t {n}"}).encode() for n in range(9))
_EXPORTS = {"conversations.json": _chatgpt(), "a.mbox": _MBOX, "a.jsonl": _JSONL}
_FORMATS = {"conversations.json": "chatgpt", "a.mbox": "mbox", "a.jsonl": "jsonl"}


def _read(data: bytes, name: str, cursor: str | None = None) -> list[Item]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(data)
        source = history.opened(Path(folder, name), history.Options(), _FORMATS[name])
        return list(source.read(cursor))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(_EXPORTS)), st.data())
def test_damaged_exports_never_break_the_reader(name: str, data: st.DataObject) -> None:
    damaged = bytearray(_EXPORTS[name])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged)))
        what = data.draw(st.sampled_from(["cut", "flip", "insert", "repeat"]))
        if what == "cut":
            del damaged[at : at + data.draw(st.integers(0, 400))]
        elif what == "flip" and at < len(damaged):
            damaged[at] = data.draw(st.integers(0, 255))
        elif what == "insert":
            damaged[at:at] = data.draw(st.binary(max_size=20))
        else:
            damaged[at:at] = damaged[at : at + data.draw(st.integers(0, 200))]
    try:
        items = _read(bytes(damaged), name)
    except NexusError:
        return
    assert all(isinstance(each.content, str) for each in items if isinstance(each, Message))


@pytest.mark.parametrize("name", sorted(_EXPORTS))
def test_reading_on_from_any_mark_gives_the_rest(name: str) -> None:
    whole = _read(_EXPORTS[name], name)
    marks = [place for place, item in enumerate(whole) if isinstance(item, Mark)]
    assert len(marks) >= 3
    for place in marks:
        cursor = whole[place]
        assert isinstance(cursor, Mark)
        rest = [each for each in whole[place + 1 :] if isinstance(each, Message)]
        again = [each for each in _read(_EXPORTS[name], name, cursor.cursor) if isinstance(each, Message)]
        assert again == rest
