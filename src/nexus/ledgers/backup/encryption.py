"""A backup as one file that only the holder of a key can read: a tar archive, encrypted with age.

`age --decrypt --identity KEY FILE | tar --extract` reads it without Nexus.
"""

import importlib
import os
import tarfile
import tempfile
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from nexus.errors import CareError
from nexus.home import LEDGERS, Home
from nexus.ledgers import files
from nexus.ledgers.backup.manifest import ENGINE, NAME

_BEGINNINGS: Final = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_OWN_FILES: Final = frozenset({NAME, ENGINE, *(f"data/{name}.db" for name in LEDGERS)})


def parse_recipients(keys: Iterable[str]) -> list[Any]:
    """Public keys of age (`age1…`) or SSH (`ssh-ed25519 …`), as the library takes them."""
    age = _library()
    recipients: list[Any] = []
    for key in map(str.strip, keys):
        kind = age.ssh if key.startswith("ssh-") else age.x25519
        try:
            recipients.append(kind.Recipient.from_str(key))
        except age.RecipientError as error:
            raise CareError(
                f"{key!r} is not a public key that a backup can be encrypted to: {error}",
                hint="Use an age key (`age1…`, made by `age-keygen`) or an SSH public key.",
            ) from None
    return recipients


def encrypt(folder: Path, target: Path, recipients: Sequence[Any]) -> None:
    """Write a backup's folder to a new encrypted file. What was written of it stays on failure."""
    age = _library()
    read, write = os.pipe()
    # The archive goes through a pipe, so nothing readable is written beside the backup.
    with os.fdopen(read, "rb") as reader, files.new(target) as writer, ThreadPoolExecutor(1) as thread:
        archiving = thread.submit(_archive, folder, write)
        try:
            age.encrypt_io(reader, writer, recipients)
        except age.EncryptError as error:
            raise CareError(f"Can't write {target}: {error}", hint="Check the disk's free space.") from None
        finally:
            reader.close()
        archiving.result()
        files.sync(writer)


@contextmanager
def private_folder(home: Home) -> Generator[Path]:
    """Make a folder beside the home that only its owner can read; deleted at the end."""
    beside = next(parent for parent in home.root.absolute().parents if parent.is_dir())
    with tempfile.TemporaryDirectory(prefix=f".{home.root.name}.backup-", dir=beside) as made:
        yield Path(made)


@contextmanager
def open_backup(source: Path, home: Home, identity: Path | None) -> Generator[Path]:
    """Give the folder of a backup; an encrypted one is decrypted to the home's disk while it is used."""
    if not source.is_file():
        yield source
        return
    with source.open("rb") as stream:
        if not stream.read(64).startswith(_BEGINNINGS):
            raise CareError(f"{source} is not a backup", hint="Check the path.")
    if identity is None:
        raise CareError(
            f"Backup {source} is encrypted", hint="Pass `--identity FILE` with the private key to decrypt it."
        )
    keys = _identities(identity)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder(home))
            _decrypt(source, folder, keys)
        except OSError as error:
            raise CareError(
                f"Can't decrypt the backup to {home.root.parent}: {files.reason(error)}",
                hint="The disk needs room for the whole backup.",
            ) from error
        yield folder


def _decrypt(source: Path, folder: Path, keys: Sequence[Any]) -> None:
    age = _library()
    read, write = os.pipe()

    def decrypt() -> None:
        with source.open("rb") as encrypted, os.fdopen(write, "wb") as plain:
            age.decrypt_io(encrypted, plain, keys)

    with os.fdopen(read, "rb") as reader, ThreadPoolExecutor(1) as thread:
        decrypting = thread.submit(decrypt)
        broken: tarfile.TarError | ValueError | None = None
        try:
            _extract(reader, folder)
        except (tarfile.TarError, ValueError) as error:
            broken = error
        finally:
            # Read to its end, so that a file whose end is missing is noticed; on failure, let go of the pipe.
            while broken is None and reader.read(1024 * 1024):
                pass
            reader.close()
        try:
            decrypting.result()
        except age.DecryptError as error:
            raise CareError(
                f"Backup {source} can't be decrypted: {error}",
                hint="Nothing changed. Pass the key that it was encrypted to, or use another backup.",
            ) from None
        except BrokenPipeError:
            pass  # the archive was refused first
        except OSError as error:
            raise _damage_error(source, error) from None
    if broken:
        raise _damage_error(source, broken) from None


def _damage_error(source: Path, error: Exception) -> CareError:
    return CareError(f"Backup {source} is damaged or truncated: {error}", hint="Use another backup.")


def _archive(folder: Path, write: int) -> None:
    with os.fdopen(write, "wb") as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            archive.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _extract(stream: Any, folder: Path) -> None:
    """Write an archive's files; one with a link, or a name that no backup has, is refused."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            name = member.name if member.name in _OWN_FILES else files.check_path(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            if content is None:
                raise ValueError(f"{name} is not a plain file")
            with files.new(folder / name) as writer:
                while chunk := content.read(1024 * 1024):
                    writer.write(chunk)


def _identities(file: Path) -> list[Any]:
    age = _library()
    try:
        text = file.read_text(encoding="utf-8")
        if text.lstrip().startswith("-----BEGIN "):
            return [age.ssh.Identity.from_buffer(text.encode())]
        lines = (line.strip() for line in text.splitlines())
        keys = [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (OSError, UnicodeDecodeError, age.IdentityError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CareError(
            f"{file} holds no private key that can be used: {reason}",
            hint="Use a file made by `age-keygen`, or an SSH private key without a passphrase.",
        ) from None
    if not keys:
        raise CareError(f"{file} holds no private key", hint="Use the file that `age-keygen` made.")
    return keys


def _library() -> Any:
    try:
        return importlib.import_module("pyrage")
    except ImportError:
        raise CareError(
            "Encrypted backups need a package that isn't installed: pyrage",
            hint="Run `pip install 'nexus-runtime[encryption]'`.",
        ) from None
