"""Models are fetched from a hub over HTTP: the pinned revision, refused when its bytes are others."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from nexus.errors import ModelFileError
from nexus.memory.embedding import MODELS, Build, Model, find
from nexus.memory.embedding.catalogue import File
from nexus.memory.embedding.files import pull

CONTENT = b"weights " * 20_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REVISION = "a" * 40


class Hub(BaseHTTPRequestHandler):
    """Serves two files of the same content the way a hub does, at one revision."""

    asked: ClassVar[list[str]] = []
    breaks_at: ClassVar[list[int]] = []
    """Where the next answers end, whatever they announced."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        wanted = self.headers.get("Range", "")
        self.asked.append(f"{self.command} {self.path} {wanted}".strip())
        files = {f"/owner/model/resolve/{REVISION}/{name}" for name in ("onnx/model.onnx", "tokens.json")}
        if self.path not in files:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-") or 0)
        content = CONTENT[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(CONTENT).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.end_headers()
        if body:
            self.wfile.write(CONTENT[start : self.breaks_at.pop(0) if self.breaks_at else None])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name there
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    Hub.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def small(sha256: str = SHA256, revision: str = REVISION, *, tokenizer: bool = False) -> Model:
    model = MODELS["all-minilm-l6-v2-int8"]
    weights = File(name="model.onnx", sha256=sha256, size_bytes=len(CONTENT), hub_path="onnx/model.onnx")
    tokens = File(name="tokens.json", sha256=SHA256, size_bytes=len(CONTENT), hub_path="tokens.json")
    build = Build(
        weights=weights,
        tokenizer=tokens if tokenizer else None,
        hub_repository="owner/model",
        hub_revision=revision,
    )
    return replace(model, builds=(build,))


def test_the_pinned_revision_is_fetched_and_found_afterwards(hub: str, tmp_path: Path) -> None:
    told: list[int] = []
    place = pull(small(), tmp_path, endpoint=hub, told=told.append)
    assert (place / "model.onnx").read_bytes() == CONTENT
    assert sum(told) >= len(CONTENT)
    assert all(REVISION in line for line in Hub.asked)
    assert find(small(), pulled=tmp_path).found_in == "pulled"
    assert [path.name for path in place.iterdir()] == ["model.onnx"]


def test_a_model_with_its_own_tokenizer_is_fetched_whole(hub: str, tmp_path: Path) -> None:
    pull(small(tokenizer=True), tmp_path, endpoint=hub, told=lambda _: None)
    found = find(small(tokenizer=True), pulled=tmp_path)
    assert found.tokenizer == tmp_path / found.model.name / "tokens.json"


def test_a_model_that_is_here_is_not_fetched_again(hub: str, tmp_path: Path) -> None:
    pull(small(), tmp_path, endpoint=hub, told=lambda _: None)
    Hub.asked.clear()
    pull(small(), tmp_path, endpoint=hub, told=lambda _: None)
    assert Hub.asked == []


def test_other_bytes_than_the_pinned_ones_are_refused_and_not_kept(hub: str, tmp_path: Path) -> None:
    model = small(sha256="0" * 64)
    with pytest.raises(ModelFileError, match="is not the pinned"):
        pull(model, tmp_path, endpoint=hub, told=lambda _: None)
    assert list((tmp_path / model.name).iterdir()) == []


def test_a_hub_that_has_it_not_is_an_error_with_a_hint(hub: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"Could not download model\.onnx") as caught:
        pull(small(revision="b" * 40), tmp_path, endpoint=hub, told=lambda _: None)
    assert "network" in caught.value.hint


def test_a_model_of_no_hub_says_which_package_holds_it(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="comes as a package") as caught:
        pull(MODELS["nexus-english"], tmp_path, told=lambda _: None)
    assert "pip install nexus-model-english" in caught.value.hint


def test_every_file_that_can_be_pulled_is_pinned() -> None:
    builds = [build for model in MODELS.values() for build in model.builds]
    assert len({build.weights.sha256 for build in builds}) == len(builds)
    for build in builds:
        assert all(len(file.sha256) == 64 for file in build.files)
        assert all(bool(file.hub_path) == bool(build.hub_repository) for file in build.files)
        assert bool(build.hub_revision) == bool(build.hub_repository)


def test_connection_that_drops_is_resumed_where_it_stopped(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What has come is written down in pieces of this size, of which the file has many in earnest.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 4096)
    monkeypatch.setattr(Hub, "breaks_at", [len(CONTENT) // 2])
    place = pull(small(), tmp_path, endpoint=hub, told=lambda _: None)
    assert (place / "model.onnx").read_bytes() == CONTENT
    ranges = [asked.rpartition("bytes=")[2] for asked in Hub.asked if "bytes=" in asked]
    assert ranges == [f"{len(CONTENT) // 2 // 4096 * 4096}-"]
