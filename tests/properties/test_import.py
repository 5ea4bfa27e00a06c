"""Exports cut, garbled and repeated at random: something is read or set aside, and nothing breaks."""

import io
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus import history
from nexus.history import json_stream
from nexus.history.items import Item, Mark, Message, SetAside
from nexus.history.json_stream import BrokenJsonError
from unit.history.samples import SAMPLES, write

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


_NAMES = [source.name for source in history.SOURCES]


def _read(name: str, files: dict[str, bytes]) -> list[Item]:
    with tempfile.TemporaryDirectory() as folder:
        source = history.open_source(write(Path(folder), files), history.Options(owner=("Max",)), name)
        return list(source.read(None))


def _damaged(data: st.DataObject, whole: bytes) -> bytes:
    """The bytes with pieces cut out, changed, put in and repeated."""
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged)))
        what = data.draw(st.sampled_from(["cut", "end", "flip", "insert", "repeat"]))
        if what == "cut":
            del damaged[at : at + data.draw(st.integers(0, 400))]
        elif what == "end":
            del damaged[at:]
        elif what == "flip" and at < len(damaged):
            damaged[at] = data.draw(st.integers(0, 255))
        elif what == "insert":
            damaged[at:at] = data.draw(st.binary(max_size=20) | st.sampled_from(_NASTY))
        else:
            damaged[at:at] = damaged[at : at + data.draw(st.integers(0, 200))]
    return bytes(damaged)


_NASTY = (
    *(b"null", b"[]", b"{}", b"1e999", b"-1", b'"\\ud800"'),
    *(b"\x00", b"\xff\xfe", b'{"a":', b"\r\n\r\n", b"NaN"),
)


@pytest.mark.parametrize("name", _NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_exports_never_break_the_reader(name: str, data: st.DataObject) -> None:
    files = dict(SAMPLES[name])
    for file in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2, unique=True)):
        files[file] = _damaged(data, files[file])
    items = _read(name, files)
    for each in items:
        if isinstance(each, Message):
            assert isinstance(each.content, str)
            assert each.external_id
            assert all(file.member is None or file.member in files for file in each.attachments)


@pytest.mark.parametrize("name", _NAMES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_values_json_holds_the_reader_goes_on(name: str, data: st.DataObject) -> None:
    """Well-formed JSON in which fields have values of any kind."""

    def changed(value: Any) -> Any:
        if data.draw(st.integers(0, 12)) == 0:
            return data.draw(_JSON)
        if isinstance(value, dict):
            return {key: changed(inner) for key, inner in cast("dict[str, Any]", value).items()}
        return [changed(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value

    files = dict(SAMPLES[name])
    for file, whole in files.items():
        if file.endswith((".json", ".af")):
            files[file] = json.dumps(changed(json.loads(whole))).encode()
        elif file.endswith(".jsonl"):
            lines = (json.dumps(changed(json.loads(line))) for line in whole.splitlines())
            files[file] = "\n".join(lines).encode()
    for each in _read(name, files):
        assert not isinstance(each, Message) or isinstance(each.content, str)


@pytest.mark.parametrize("name", _NAMES)
def test_every_format_is_recognized_and_read_without_loss(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = history.open_source(write(Path(folder), SAMPLES[name]), history.Options())
        assert source.name == name
        items = list(source.read(None))
    assert [each for each in items if isinstance(each, SetAside)] == []
    assert sum(isinstance(each, Message) for each in items) >= 3


@pytest.mark.parametrize("name", _NAMES)
def test_reading_on_from_any_mark_gives_the_rest(name: str, tmp_path: Path) -> None:
    source = history.open_source(write(tmp_path, SAMPLES[name]), history.Options(), name)
    whole = list(source.read(None))
    marks = [place for place, item in enumerate(whole) if isinstance(item, Mark)]
    assert len(marks) >= 3
    for place in marks:
        cursor = whole[place]
        assert isinstance(cursor, Mark)
        rest = [each for each in whole[place + 1 :] if isinstance(each, Message)]
        again = [each for each in source.read(cursor.cursor) if isinstance(each, Message)]
        assert again == rest


def test_a_line_of_100_mb_costs_no_memory_for_itself() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        with path.open("wb") as file:
            file.write(b'{"id": "1", "text": "a"}\n{"id": "2", "text": "')
            for _ in range(100):
                file.write(b"x" * 1_000_000)
            file.write(b'"}\n{"id": "3", "text": "c"}\n')
        tracemalloc.start()
        items = list(history.open_source(path, history.Options()).read(None))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert [each.content for each in items if isinstance(each, Message)] == ["a", "c"]
    assert [each.reason for each in items if isinstance(each, SetAside)] == ["the line is longer than 16 MiB"]
    assert peak < 80_000_000
