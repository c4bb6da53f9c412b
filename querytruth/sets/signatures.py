"""Signatures of versions in the form of OpenSSF model signing: who holds the key published exactly these bytes.

<name>/v2.sig    beside the version, which never changes: a sigstore bundle, whose DSSE envelope holds an in-toto
                 statement with the path and the SHA-256 of each file of the version

Any verifier of that form reads it: `model_signing verify key v2 --signature v2.sig --public_key key.pub`. The library
comes with the extra `sign`.
"""

import ast
import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from querytruth.backends.files.bucket_urls import refuse_fetched_copy
from querytruth.backends.files.durable_files import write_atomically
from querytruth.backends.files.safe_paths import read_regular
from querytruth.errors import UserError, first_line, translate_read_errors, translate_write_errors
from querytruth.sets.manifest import read_manifest
from querytruth.sets.published_files import MAX_SIGNATURE_BYTES, signature_of
from querytruth.sets.set_files import read_image_digests, verify_set

_MAX_KEY_BYTES = 1 << 20
_EXTRA = 'pip install "querytruth[sign]"'
_MAKE_KEY = "openssl ecparam -name prime256v1 -genkey -noout makes one, openssl ec -pubout its public half"
_PASSWORD = "QUERYTRUTH_KEY_PASSWORD"
_MISMATCH = "Signature mismatch: "
_DIFFERENCES = {
    re.compile(r"Hash mismatch for '(.*)': Expected .*", re.DOTALL): "is not what was signed",
    re.compile(r"Missing files in model '[^']*': (.*)", re.DOTALL): "was signed, and is missing",
    re.compile(r"Extra files found in model '[^']*': (.*)", re.DOTALL): "was not signed",
}


def sign_version(version: Path, key: Path) -> Path:
    """Signs every file of a version with an elliptic private key (PEM), and returns the signature's path; an earlier
    one is replaced. Raises UserError where the version is damaged, for another key, and without the library."""
    refuse_fetched_copy(version, "sign")
    library = _import_library("sign", key)
    password = _read_password(_check_key(key, "sign", b"PRIVATE KEY"), key)
    for problem in verify_set(version):
        raise UserError("sign", f"{version}/{problem}"[:200], "nothing is signed", "restore the file, or sign another")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        try:
            signer = library.signing.Config().use_elliptic_key_signer(private_key=key, password=password)
            signer.set_hashing_config(_AllFiles(library)).sign(version, file)
        except _faults() as error:
            raise UserError("sign", key, f"cannot sign ({first_line(error)})", _MAKE_KEY) from None
        with translate_write_errors("sign", signature_of(version)):
            write_atomically(signature_of(version), file.read_bytes())
    return signature_of(version)


def find_signature_faults(
    version: Path, key: Path, signature: Path | None = None, *, with_images: bool = True
) -> list[str]:
    """Returns a line per difference between a version and what the holder of this public key (PEM) signed; none where
    it is the same. Without images, the digests that the version lists of them are compared, and they are not read.
    Raises UserError for a file that is no such key, and without the library."""
    library = _import_library("verify", key)
    _check_key(key, "verify", b"PUBLIC KEY")
    place = signature or signature_of(version)
    shown = str(signature) if signature else f"../{place.name}"
    if not place.is_file():
        return [f"{shown}: there is no signature"]
    try:
        read_regular(place, MAX_SIGNATURE_BYTES)
        verifier = library.verifying.Config().use_elliptic_key_verifier(public_key=key)
        files = _AllFiles(library) if with_images else _ReadFiles(library, version)
        with contextlib.redirect_stdout(io.StringIO()):  # of the library's own warnings
            verifier.set_hashing_config(files).verify(version, place)
    except _faults() as error:
        return list(_describe(error, shown))
    return []


class _AllFiles:
    """What the library asks for the digests of a version: of every file, also of those that it leaves out by itself
    (.git, .gitignore) or that a signature says to leave out."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def hash(self, version: Path, *, files_to_hash: Iterable[Path] | None = None) -> Any:
        """Returns the library's manifest of the files."""
        config = self._library.hashing.Config().set_ignored_paths(paths=[], ignore_git_paths=False)
        return config.hash(version, files_to_hash=files_to_hash)

    def add_ignored_paths(self, *, model_path: Path, paths: Iterable[str]) -> None:
        """Leaves out nothing."""


class _ReadFiles(_AllFiles):
    """The digests of the manifest and of the files that it lists, which are read; and of the images as listed there."""

    def __init__(self, library: Any, version: Path) -> None:
        super().__init__(library)
        manifest = read_manifest(version)
        self._read = ["manifest.json", *(file["path"] for file in manifest["files"])]
        self._images = read_image_digests(version, manifest)

    def hash(self, version: Path, *, files_to_hash: Iterable[Path] | None = None) -> Any:
        """Returns the library's manifest of the files."""
        found = super().hash(version, files_to_hash=[version / name for name in self._read])
        digests = {row.identifier: row.digest for row in found.resource_descriptors()}
        form = digests["manifest.json"]
        digests |= {name: replace(form, digest_value=bytes.fromhex(one)) for name, one in self._images.items()}
        manifest = self._library.manifest
        items = [manifest.FileManifestItem(path=PurePosixPath(name), digest=one) for name, one in digests.items()]
        kind = manifest.SerializationType.from_args(found.serialization_type)
        return manifest.Manifest(found.model_name, items, kind)


def _import_library(stage: str, item: object) -> Any:
    try:
        import model_signing
        import model_signing.manifest
    except ImportError as error:
        reason = f"needs the library model-signing, which is not installed whole ({first_line(error)})"
        raise UserError(stage, item, reason, _EXTRA) from None
    return model_signing


def _check_key(key: Path, stage: str, kind: bytes) -> bytes:
    """Returns the text of a key. Raises UserError for a file that is no key of this kind in PEM."""
    with translate_read_errors(stage, key):
        text = read_regular(key, _MAX_KEY_BYTES)
    if kind + b"-----" not in text:
        raise UserError(stage, key, f"is no {kind.decode().lower()} in PEM", _MAKE_KEY)
    return text


def _read_password(text: bytes, key: Path) -> bytes | None:
    """Returns the password of an encrypted key, from the environment. Raises UserError where it is not there."""
    if b"ENCRYPTED" not in text:
        return None
    if not os.environ.get(_PASSWORD):
        raise UserError("sign", key, "is encrypted", f"set {_PASSWORD} in the environment to its password")
    return os.environ[_PASSWORD].encode()


def _faults() -> tuple[type[Exception], ...]:
    """What the library raises for a key, a signature or a folder that it cannot use, or that differs."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    own = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError, OSError)
    return (*own, InvalidSignature, UnsupportedAlgorithm)


def _describe(error: Exception, shown: str) -> Iterable[str]:
    """Yields a line per file that differs, or one about the signature."""
    message = str(error)
    if not message.startswith(_MISMATCH):
        reason = first_line(error) if message else "no signature of this key"
        yield f"{shown}: does not hold ({reason})"
        return
    for text in ast.literal_eval(message.removeprefix(_MISMATCH)):
        for pattern, reason in _DIFFERENCES.items():
            if found := pattern.fullmatch(text):
                names = [found[1]] if reason == "is not what was signed" else found[1].split(", ")
                yield from (f"{name}: {reason}" for name in names)
