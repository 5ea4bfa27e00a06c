"""Secrets: read from where the settings say, and masked in what is stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringError, PasswordDeleteError

from nexus import secrets
from nexus.errors import SecretError


class Shelf(KeyringBackend):
    """A keyring in memory."""

    priority = 1  # pyright: ignore[reportAssignmentType]  the base class declares a property of the class

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringError("it is locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.locked:
            raise KeyringError("it is locked")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("there is none")


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    before = keyring.get_keyring()
    shelf = Shelf()
    keyring.set_keyring(shelf)
    yield shelf
    keyring.set_keyring(before)


def test_a_secret_of_the_environment() -> None:
    assert secrets.read("env:KEY", {"KEY": "s3cret"}) == "s3cret"


def test_a_secret_of_a_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n", encoding="utf-8")
    assert secrets.read(f"file:{tmp_path / 'key'}") == "s3cret"


def test_a_secret_of_the_keyring(shelf: Shelf) -> None:
    shelf.kept["nexus", "anthropic"] = "s3cret"
    assert secrets.read("keyring:nexus/anthropic") == "s3cret"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("env:KEY", "Set the environment variable KEY."),
        ("file:/nowhere/key", "Write it to /nowhere/key."),
        ("keyring:nexus/anthropic", "Run `keyring set nexus anthropic`."),
    ],
)
@pytest.mark.usefixtures("shelf")
def test_a_secret_that_is_missing_is_asked_for(source: str, hint: str) -> None:
    with pytest.raises(SecretError) as caught:
        secrets.read(source, {})
    assert caught.value.hint == hint


def test_a_keyring_that_does_not_answer_is_an_error_and_not_a_trace(shelf: Shelf) -> None:
    shelf.locked = True
    with pytest.raises(SecretError, match="it is locked"):
        secrets.read("keyring:nexus/anthropic")


def test_a_secret_is_kept_in_the_keyring_apart_for_each_home(shelf: Shelf, tmp_path: Path) -> None:
    for home in ("one", "two"):
        source = secrets.keep(f"key of {home}", "anthropic", tmp_path / home / "secrets")
        assert source == f"keyring:nexus/anthropic@{tmp_path / home}"
        assert secrets.read(source) == f"key of {home}"
    assert list(tmp_path.iterdir()) == []


def test_a_secret_is_kept_in_a_private_file_where_the_keyring_is_locked(shelf: Shelf, tmp_path: Path) -> None:
    shelf.locked = True
    for secret in ("first", "second"):
        assert secrets.keep(secret, "anthropic", tmp_path / "secrets") == f"file:{tmp_path}/secrets/anthropic"
        assert secrets.read(f"file:{tmp_path}/secrets/anthropic") == secret
    [file] = (tmp_path / "secrets").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_was_kept_is_replaced_and_deleted_where_it_is(shelf: Shelf, tmp_path: Path) -> None:
    kept = [secrets.keep("first", "mcp", tmp_path / "secrets")]
    shelf.locked = True
    kept.append(secrets.keep("first", "mcp", tmp_path / "secrets"))
    with pytest.raises(SecretError, match="Can't write the secret at keyring:"):
        secrets.replace(kept[0], "second")
    shelf.locked = False
    for source in kept:
        secrets.replace(source, "second")
        assert secrets.read(source) == "second"
        for _ in range(2):  # once more does no harm
            secrets.delete(source)
        with pytest.raises(SecretError):
            secrets.read(source)
    assert (shelf.kept, list((tmp_path / "secrets").iterdir())) == ({}, [])
    with pytest.raises(SecretError, match="Name a file or an unlocked keyring"):
        secrets.replace("env:KEY", "second")


def test_known_secrets_are_masked_the_longest_first() -> None:
    text = "key abcdef-123456 and abcdef, not abc"
    assert secrets.redact(text, ["abcdef", "abcdef-123456", "abc"]) == "key [secret] and [secret], not abc"


def test_a_secret_is_masked_in_its_quoted_forms_too() -> None:
    secret = 'sk-1/2\n"ä'
    for shown in (secret, repr(secret), repr(secret.encode()), json.dumps(secret), quote(secret, safe="")):
        assert "sk-1" not in secrets.redact(f"Illegal header value {shown}", [secret])


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("env:TOKEN", "env:TOKEN"),
        ("Bearer env:TOKEN", "env:TOKEN"),
        ("Bearer sk-1", ""),
        ("see the env:TOKEN", ""),
        ("", ""),
    ],
)
def test_a_source_stands_alone_or_behind_one_word(text: str, source: str) -> None:
    assert secrets.source_in(text) == source


_ENVIRON = {"PASSWORD": "hunter2/secret", "TOKEN": "tok-0123456789", "NAME": "me@home"}


@pytest.mark.parametrize(
    ("text", "url", "plain"),
    [
        ("https://host/v1?page=2", "https://host/v1?page=2", "https://host/v1?page=2"),
        (
            "postgresql://me:env:PASSWORD@db:5432/nexus",
            "postgresql://me:hunter2%2Fsecret@db:5432/nexus",
            "postgresql://db:5432/nexus",
        ),
        (
            "https://env:NAME:env:PASSWORD@host/v1",
            "https://me%40home:hunter2%2Fsecret@host/v1",
            "https://host/v1",
        ),
        ("https://env:TOKEN@host/v1", "https://tok-0123456789@host/v1", "https://host/v1"),
        (
            "https://host/mcp?page=2&token=env:TOKEN",
            "https://host/mcp?page=2&token=tok-0123456789",
            "https://host/mcp?page=2",
        ),
    ],
)
def test_a_url_names_variables_for_its_credentials(text: str, url: str, plain: str) -> None:
    assert not secrets.in_url(text, variables=True)
    found = secrets.address(text, _ENVIRON)
    assert (found.url, found.plain) == (url, plain)
    assert not any(secret in found.plain for secret in found.secrets)
    assert not any(value in repr(found) for value in _ENVIRON.values())


def test_a_variable_of_a_url_that_is_not_set_is_an_error() -> None:
    with pytest.raises(SecretError, match="env:MISSING"):
        secrets.address("https://host/?token=env:MISSING", {})


def test_of_a_url_each_secret_piece_is_masked_alone() -> None:
    url = "json://robot:pass%20word7@hooks.example/path-of-8/t?key=value-of-9"
    known = secrets.pieces(f"{url} tgram://1234:tokenABC/chat")
    told = "hooks.example refused pass word7, pass%20word7 at /path-of-8/t with value-of-9; tokenABC as chat"
    shown = secrets.redact(told, known)
    assert not any(each in shown for each in ("word7", "path-of-8", "value-of-9", "tokenABC"))
    assert "hooks.example refused" in shown
    assert shown.endswith("as chat")
