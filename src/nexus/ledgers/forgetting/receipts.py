"""Receipts of forgetting: counts, the seal before and after, digests of ids, and a signature.

A receipt holds no content. What was forgotten is recognised later by the ids of its rows, which are random;
each is kept as a digest with a key of the home. So a receipt tells nothing to somebody who has it alone,
and somebody who has an old backup, too, can't find out which of its rows were forgotten since.

The same key makes a code over the whole receipt, by which the home sees that it wrote it. A signature, which
needs another package, shows that to everybody else.
"""

import base64
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from hmac import compare_digest
from importlib.util import find_spec
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final, Self, cast

from nexus.errors import CareError, MissingError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

EXTRA: Final = "receipts"
_EXTRA_HINT: Final = f"Install it with `pip install nexus-runtime[{EXTRA}]`"
FORMAT: Final = "nexus-forget-receipt"
FORMAT_VERSION: Final = 1
_DIGEST_BYTES: Final = 15
_ID: Final = re.compile(r"[A-Za-z0-9_]{1,60}")
_KEY_BYTES: Final = 32
_KEY, _PUBLIC_KEYS = "digest.key", "public-keys.txt"
# A receipt of a million rows has 21 MB.
_MOST_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What was found in one place, once everything was removed."""

    status: str
    """`clean`: searched, and nothing of it is there. `kept`: something that stays says the same. `found`:
    something of it is left. `unsearched`: it may be there, or not. `none`: there is no such place."""
    counts: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownBackup:
    """What a backup of the home still holds. Its path is not kept: it may say something."""

    created_at: str
    status: str
    """`clean`, `found`, `missing` or `unreadable`."""
    rows: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What one forgetting removed."""

    id: str
    nexus_version: str
    target_kind: str
    target: str
    """An id or a time range; of a scope, a digest."""
    searches_names: bool
    """Whether texts that name the entity went, too, by all of its names."""
    began_at: str
    completed_at: str
    seal_before: str
    seal_after: str
    removed: dict[str, int]
    emptied: dict[str, int]
    files: int
    places: dict[str, Place]
    backups: list[KnownBackup]
    key_id: str
    digests: dict[str, list[str]]
    public_key: str = ""
    """Of the key that signed it; empty where the package for signatures was missing."""
    code: str = ""
    signature: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the whole receipt, as its file holds it."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}

    def summary(self) -> dict[str, Any]:
        """Return what a person reads of it: all but the digests."""
        content = self.to_json()
        content["digests"] = sum(map(len, self.digests.values()))
        return content

    def signed_bytes(self) -> bytes:
        """Return what the signature is of: the receipt as JSON without it, sorted and without blanks."""
        return self._bytes_without("signature")

    def coded_bytes(self) -> bytes:
        """Return what the home's code is of: the same, without the code."""
        return self._bytes_without("signature", "code")

    def _bytes_without(self, *names: str) -> bytes:
        content = {name: value for name, value in self.to_json().items() if name not in names}
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a receipt of any home and check its signature; one that was changed is refused."""
        receipt = cls.load(path)
        if not receipt.signature:
            raise CareError(
                f"The receipt {path} has no signature",
                hint=f"Only its home can check it. {_EXTRA_HINT} there: the next ones are signed.",
            )
        require_signatures()
        if not is_signed(receipt):
            raise _changed_error(path)
        return receipt

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a receipt without checking who wrote it."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("too large")
            receipt = cls._parse(json.loads(path.read_bytes()))
        except OSError as error:
            raise CareError(
                f"Can't read the receipt {path}: {error.strerror}", hint="Check the path."
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CareError(
                f"{path} is not a receipt of forgetting", hint="Pass the file as it was written."
            ) from None
        return receipt

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> Self:
        if (content.pop("format"), content.pop("format_version")) != (FORMAT, FORMAT_VERSION):
            raise ValueError("another format")
        places = {str(name): Place(**place) for name, place in content.pop("places").items()}
        backups = [KnownBackup(**each) for each in content.pop("backups")]
        receipt = cls(**content, places=places, backups=backups)
        texts = (receipt.id, receipt.target_kind, receipt.target, receipt.completed_at, receipt.signature)
        if not all(isinstance(cast("object", each), str) for each in texts) or not _ID.fullmatch(receipt.id):
            raise ValueError("these are not the values of a receipt")
        return receipt


def _changed_error(path: Path) -> CareError:
    return CareError(
        f"The receipt {path} was changed: its signature doesn't match",
        hint="Use the file as it was written; the home keeps its own below state/receipts.",
    )


def can_sign() -> bool:
    """Whether the package that makes and checks signatures is installed."""
    return find_spec("cryptography") is not None


def require_signatures() -> None:
    """Raise an error that says what to install if signatures can't be made or checked."""
    if not can_sign():
        raise CareError(
            "Signatures need a package that isn't installed: cryptography", hint=_EXTRA_HINT + "."
        )


def is_signed(receipt: Receipt) -> bool:
    """Whether a receipt's signature is that of the key that it names."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(receipt.public_key, validate=True))
        key.verify(base64.b64decode(receipt.signature, validate=True), receipt.signed_bytes())
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


class Digests:
    """Digests of ids, with a key of the home."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def key_id(self) -> str:
        return _encode(blake2b(b"key", key=self._key, digest_size=6).digest())

    def code(self, data: bytes) -> str:
        """Return the code by which the home knows its own receipts."""
        return _encode(blake2b(data, key=self._key, digest_size=32, person=b"nexus-receipt").digest())

    def of(self, value: object) -> str:
        """Return the digest of a row's key, as a text."""
        data = str(value).encode("utf-8", "surrogatepass")
        return _encode(blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest())


class Folder:
    """Receipts, with what is needed to check and to apply them: `state/receipts` of a home, or a copy of it.

    It travels with backups and exports. The key that signs doesn't.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, home: Home) -> Self:
        return cls(home.state / "receipts")

    def file(self, forget_id: str) -> Path:
        return self.path / f"{forget_id}.json"

    def digests(self) -> Digests | None:
        """Return the digests with the key that is here; None where there is none."""
        try:
            key = base64.b64decode((self.path / _KEY).read_text(encoding="ascii"), validate=False)
        except (OSError, ValueError):
            return None
        return Digests(key) if len(key) == _KEY_BYTES else None

    def make_digests(self) -> Digests:
        """Return the digests, with a new key where there is none."""
        self.path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        write_new(self.path / _KEY, base64.b64encode(token_bytes(_KEY_BYTES)).decode() + "\n")
        made = self.digests()
        if made is None:
            raise CareError(
                f"{self.path / _KEY} is damaged", hint="Restore it from a backup, or move it away."
            )
        return made

    def public_keys(self) -> list[str]:
        """Return the keys by which receipts here were signed."""
        try:
            return (self.path / _PUBLIC_KEYS).read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return []

    def trust(self, public_key: str) -> None:
        """Remember a key of the home."""
        if public_key not in (known := self.public_keys()):
            replace_file(self.path / _PUBLIC_KEYS, "".join(f"{each}\n" for each in [*known, public_key]))

    def find(self, forget_id: str) -> Receipt:
        """Return the receipt of a forget."""
        path = self.file(forget_id)
        if not _ID.fullmatch(forget_id) or not path.is_file():
            raise MissingError(f"No receipt {forget_id!r}", hint=f"Receipts are in {self.path}.")
        return self.read(path)

    def load(self) -> list[Receipt]:
        """Return all receipts here, the oldest first. One that was changed, or that others signed, raises."""
        receipts = [self.read(path) for path in sorted(self.path.glob("*.json"))]
        return sorted(receipts, key=lambda receipt: receipt.completed_at)

    def read(self, path: Path) -> Receipt:
        """Read a receipt that a key of this home signed, from wherever it is."""
        receipt = Receipt.load(path)
        digests = self.digests()
        if digests is not None and digests.key_id == receipt.key_id:
            code = digests.code(receipt.coded_bytes())
            if not compare_digest(code.encode(), receipt.code.encode("utf-8", "replace")):
                raise _changed_error(path)
        if receipt.public_key and can_sign() and not is_signed(receipt):
            raise _changed_error(path)
        is_own = digests is not None and digests.key_id == receipt.key_id
        if not is_own or (receipt.public_key and receipt.public_key not in self.public_keys()):
            raise CareError(
                f"The receipt {path} was written by another home",
                hint="To check its signature alone, run `nexus forget verify --public-key KEY FILE`.",
            )
        return receipt

    def take(self, other: "Folder", receipts: Iterable[Receipt]) -> None:
        """Take over receipts of another folder that were made with the same key, or if there is none here."""
        theirs = other.digests()
        if theirs is None or other.path == self.path:
            return
        if self.digests() is None:
            self.path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            write_new(self.path / _KEY, (other.path / _KEY).read_text(encoding="ascii"))
        mine = self.digests()
        if mine is not None and mine.key_id == theirs.key_id:
            for receipt in receipts:
                if receipt.public_key:
                    self.trust(receipt.public_key)
                write_new(self.file(receipt.id), (other.file(receipt.id)).read_text(encoding="utf-8"))


def sign(home: Home, receipt: Receipt) -> Receipt:
    """Sign a receipt with the home's key, which is made when it is first needed. No backup holds it."""
    key = public_key(home) if can_sign() else ""
    unsigned = replace(receipt, public_key=key, code="", signature="")
    code = Folder.of(home).make_digests().code(unsigned.coded_bytes())
    unsigned = replace(unsigned, code=code)
    if not key:
        return unsigned
    signature = base64.b64encode(_private_key(home).sign(unsigned.signed_bytes())).decode()
    return replace(unsigned, signature=signature)


def public_key(home: Home) -> str:
    """Return the key by which a stranger checks the receipts of a home."""
    require_signatures()
    from cryptography.hazmat.primitives import serialization

    public = _private_key(home).public_key()
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def save(home: Home, receipt: Receipt) -> Receipt:
    """Sign a receipt and write it to the home's folder, whole or not at all; return the signed one."""
    folder = Folder.of(home)
    signed = sign(home, receipt)
    if signed.public_key:
        folder.trust(signed.public_key)
    replace_file(folder.file(receipt.id), json.dumps(signed.to_json(), indent=1) + "\n")
    return signed


def replace_file(path: Path, content: str) -> None:
    """Write a private file, whole or not at all, that survives a power cut."""
    building = path.with_name(f".{path.name}.new")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    building.replace(path)


def _private_key(home: Home) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = home.root / "receipts.pem"
    if not file.exists():
        made = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_new(file, made.decode())
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except ValueError:
        raise CareError(
            f"The key in {file} is damaged", hint="Move it away: the next receipt makes a new one."
        ) from None
    return cast("Ed25519PrivateKey", key)


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
