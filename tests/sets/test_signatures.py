"""A signed version: another tool verifies it, and thirty ways to tamper with it are named, each by its file."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import querytruth as qt
from querytruth.errors import UserError
from querytruth.sets.published_files import CHECKSUMS
from querytruth.sets.signatures import find_signature_faults, sign_version
from tests.object_service import ObjectService
from tests.resealed_sets import reseal
from tests.small_sets import publish_small_set, small_tables

pytest.importorskip("model_signing")


def write_keys(folder: Path, name: str, password: bytes | None = None, curve: ec.EllipticCurve | None = None) -> Path:
    """Writes a private key NAME.pem, and its public half NAME.pub, whose path is returned."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    wrap = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.pem").write_bytes(key.private_bytes(pem, pkcs8, wrap))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)
    return folder / f"{name}.pub"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a signed version, sets/small/v1, the keys of who signed it, and those of somebody else."""
    folder = tmp_path_factory.mktemp("signed")
    version = publish_small_set(folder, small_tables()).path
    for name in ("publisher", "stranger"):
        write_keys(folder, name)
    sign_version(version, folder / "publisher.pem")
    return folder


@pytest.fixture
def signed(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(original, tmp_path / "copy")
    return tmp_path / "copy"


def verify(folder: Path, key: str = "publisher") -> list[str]:
    return qt.verify(folder / "sets" / "small" / "v1", key=folder / f"{key}.pub")


def image_of(version: Path, number: int = 0) -> Path:
    return sorted((version / "images").rglob("*.jpg"))[number]


def flip(file: Path, place: int = -1) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.unlink()  # a version holds hard links
    file.write_bytes(data)


def drop_rows(file: Path) -> None:
    table = pq.read_table(file)
    file.unlink()
    pq.write_table(table.slice(0, table.num_rows - 1), file)


def swap(one: Path, other: Path) -> None:
    data = one.read_bytes(), other.read_bytes()
    for file, content in zip((one, other), reversed(data), strict=True):
        file.unlink()
        file.write_bytes(content)


def resealed(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """The change, with new checksums, so that the version alone looks intact."""

    def tamper(version: Path) -> None:
        change(version)
        reseal(version)

    return tamper


def sign_again(version: Path) -> None:
    sign_version(version, version.parents[2] / "stranger.pem")


def replace_text(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert old in data
    file.unlink()
    file.write_bytes(data.replace(old, new))


def signature(version: Path) -> Path:
    return version.with_name("v1.sig")


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit of an image": (lambda v: flip(image_of(v)), "images/"),
    "a flipped bit of the queries": (lambda v: flip(v / "queries.parquet", 60), "queries.parquet"),
    "a flipped bit of the judgments": (lambda v: flip(v / "qrels.parquet", 60), "qrels.parquet"),
    "a flipped bit of the images table": (lambda v: flip(v / "images.parquet", 60), "images.parquet"),
    "a flipped bit of the ledger": (lambda v: flip(v / "ledger.parquet", 30), "ledger.parquet"),
    "a flipped bit of the list of images": (lambda v: flip(v / CHECKSUMS, 30), CHECKSUMS),
    "a flipped bit of the card": (lambda v: flip(v / "README.md", 3), "README.md"),
    "a flipped bit of the manifest": (lambda v: flip(v / "manifest.json", 40), "manifest.json"),
    "an image that is gone": (lambda v: image_of(v).unlink(), "images/"),
    "a table that is gone": (lambda v: (v / "qrels.parquet").unlink(), "qrels.parquet"),
    "a card that is gone": (lambda v: (v / "README.md").unlink(), "README.md"),
    "a manifest cut short": (lambda v: os.truncate(v / "manifest.json", 100), "manifest.json"),
    "an image cut short": (lambda v: os.truncate(image_of(v), 100), "images/"),
    "an empty table": (lambda v: os.truncate(v / "qrels.parquet", 0), "qrels.parquet"),
    "bytes after the end of an image": (lambda v: flip_append(image_of(v)), "images/"),
    "a file more": (lambda v: (v / "extra.txt").write_text("x"), "extra.txt"),
    "a file more that git would hide": (lambda v: (v / ".gitignore").write_text("x"), ".gitignore"),
    "an image more": (lambda v: (v / "images" / "more.jpg").write_bytes(b"x"), "images/more.jpg"),
    "a link in place of an image": (lambda v: link(image_of(v), image_of(v, 1)), "images/"),
    "two images exchanged": (lambda v: swap(image_of(v), image_of(v, 1)), "images/"),
    "another image with new checksums": (resealed(lambda v: flip(image_of(v))), "images/"),
    "two images exchanged, new checksums": (resealed(lambda v: swap(image_of(v), image_of(v, 1))), "images/"),
    "a judgment less, new checksums": (resealed(lambda v: drop_rows(v / "qrels.parquet")), "qrels.parquet"),
    "a query less, new checksums": (resealed(lambda v: drop_rows(v / "queries.parquet")), "queries.parquet"),
    "another licence, new checksums": (
        resealed(lambda v: replace_text(v / "manifest.json", b"CC0-1.0", b"CC9-9.9")),
        "manifest.json",
    ),
    "another card, new checksums": (
        resealed(lambda v: (v / "README.md").unlink() or (v / "README.md").write_text("mine")),
        "README.md",
    ),
    "no signature": (lambda v: signature(v).unlink(), "v1.sig"),
    "the signature of somebody else": (sign_again, "v1.sig"),
    "a flipped bit of the signature": (lambda v: flip(signature(v), 200), "v1.sig"),
    "a signature that is no JSON": (lambda v: signature(v).write_text("[]"), "v1.sig"),
    "a signature without signatures": (
        lambda v: replace_text(signature(v), b'"signatures"', b'"signature_"'),
        "v1.sig",
    ),
    "a signature with a changed statement": (
        lambda v: (
            replace_text(signature(v), b'"payload": "', b'"payload": "AAAA')
            if b'"payload": "' in signature(v).read_bytes()
            else replace_text(signature(v), b'"payload":"', b'"payload":"AAAA')
        ),
        "v1.sig",
    ),
}


def flip_append(file: Path) -> None:
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data + b"x")


def link(file: Path, target: Path) -> None:
    file.unlink()
    file.symlink_to(target)


def test_the_table_has_thirty_tamperings_or_more() -> None:
    assert len(TAMPERINGS) >= 30


@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_tampering_is_named_by_its_file(signed: Path, name: str) -> None:
    assert verify(signed) == []
    tamper, file = TAMPERINGS[name]
    tamper(signed / "sets" / "small" / "v1")
    problems = verify(signed)
    assert problems and any(file in problem.split(": ")[0] for problem in problems), problems


RESEALED = [name for name in TAMPERINGS if "new checksums" in name]


@pytest.mark.parametrize("name", RESEALED)
def test_what_checksums_alone_cannot_show_the_signature_names(signed: Path, name: str) -> None:
    """Of a version that a stranger gave new checksums, the signature names each file that is not what was signed."""
    version = signed / "sets" / "small" / "v1"
    TAMPERINGS[name][0](version)
    named = {line.split(": ")[0] for line in find_signature_faults(version, signed / "publisher.pub")}
    assert "manifest.json" in named and any(TAMPERINGS[name][1] in one for one in named), named


@pytest.mark.parametrize("name", RESEALED)
def test_a_share_finds_them_too_by_the_lists_that_were_signed(signed: Path, name: str) -> None:
    version = signed / "sets" / "small" / "v1"
    key = signed / "publisher.pub"
    assert qt.verify(version, key=key, reading=qt.PartialReading(0.05)) == []
    TAMPERINGS[name][0](version)
    assert qt.verify(version, key=key, reading=qt.PartialReading(0.05))


def test_another_public_key_verifies_nothing(signed: Path) -> None:
    (problem,) = verify(signed, "stranger")
    assert problem.startswith("../v1.sig: does not hold (Key mismatch")


def test_the_version_is_unchanged_by_its_signature(original: Path) -> None:
    version = original / "sets" / "small" / "v1"
    assert qt.verify(version) == [] and not list(version.rglob("*.sig"))


def test_a_damaged_version_is_not_signed(signed: Path) -> None:
    version = signed / "sets" / "small" / "v1"
    before = signature(version).read_bytes()
    flip(image_of(version))
    with pytest.raises(UserError, match="nothing is signed"):
        sign_version(version, signed / "publisher.pem")
    assert signature(version).read_bytes() == before


def test_curves_and_passwords(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = signed / "sets" / "small" / "v1"
    for name, curve in (("large", ec.SECP384R1()), ("largest", ec.SECP521R1())):
        public = write_keys(signed, name, curve=curve)
        sign_version(version, signed / f"{name}.pem")
        assert find_signature_faults(version, public) == []
    public = write_keys(signed, "locked", b"open sesame")
    with pytest.raises(UserError, match=r"is encrypted\. Next: set QUERYTRUTH_KEY_PASSWORD"):
        sign_version(version, signed / "locked.pem")
    monkeypatch.setenv("QUERYTRUTH_KEY_PASSWORD", "wrong")
    with pytest.raises(UserError, match="cannot sign"):
        sign_version(version, signed / "locked.pem")
    monkeypatch.setenv("QUERYTRUTH_KEY_PASSWORD", "open sesame")
    sign_version(version, signed / "locked.pem")
    assert find_signature_faults(version, public) == []


def test_other_keys_are_refused_in_one_line(signed: Path) -> None:
    version = signed / "sets" / "small" / "v1"
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (signed / "rsa.pem").write_bytes(other.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    write_keys(signed, "odd", curve=ec.SECP256K1())
    for key in ("rsa.pem", "odd.pem", "publisher.pub", "sets", "none.pem"):
        with pytest.raises(UserError) as refused:
            sign_version(version, signed / key)
        assert len(str(refused.value)) < 400 and "Next: " in str(refused.value)
    with pytest.raises(UserError, match="is no public key in PEM"):
        find_signature_faults(version, signed / "publisher.pem")


def test_without_the_library_the_extra_is_named(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "model_signing"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "OpenSSL", None)
    with pytest.raises(UserError, match=r'pip install "querytruth\[sign\]"'):
        verify(signed)


@pytest.mark.thorough
def test_the_signature_goes_into_a_bucket_and_comes_back(
    signed: Path, object_service: ObjectService, tmp_path: Path
) -> None:
    version, key = signed / "sets" / "small" / "v1", signed / "publisher.pub"
    stored = qt.load(version).publish(object_service.url, with_places=True)
    assert qt.verify(stored.url, key=key) == []
    reading = qt.PartialReading(0.25)
    assert qt.verify(stored.url, key=key, reading=reading) == []
    assert (reading.read, reading.total) == (1, 4)
    fetched = qt.fetch(stored.url, tmp_path / "fetched").path
    assert qt.verify(fetched, key=key) == []
    sign_again(version)
    assert not qt.load(version).publish(object_service.url, with_places=True).is_new
    (problem,) = qt.verify(stored.url, key=key)
    assert "v1.sig: does not hold" in problem
    digest = hashlib.sha256(image_of(version).read_bytes()).hexdigest()
    object_service.ask("DELETE", next(key for key in object_service.list_keys() if key.endswith(digest)))
    (problem,) = qt.verify(stored.url, reading=qt.PartialReading(0.01, seed="any"))
    assert problem == f"{image_of(version).relative_to(version)}: is missing, or has another size"
    assert qt.verify(fetched, key=key) == []  # who fetched it keeps the signature that they have


@pytest.mark.slow
def test_the_verifier_of_the_signing_library_itself_verifies_our_output(signed: Path) -> None:
    """Its command, in a process of its own, without any of our code."""
    version, tool = signed / "sets" / "small" / "v1", Path(sys.executable).with_name("model_signing")
    words = [
        tool,
        "verify",
        "key",
        version,
        "--signature",
        signature(version),
        "--public_key",
        signed / "publisher.pub",
    ]
    sound = subprocess.run(words, capture_output=True, text=True, check=False)
    assert sound.returncode == 0 and "succeeded" in sound.stdout + sound.stderr, sound
    flip(image_of(version))
    damaged = subprocess.run(words, capture_output=True, text=True, check=False)
    assert damaged.returncode != 0 and image_of(version).name in damaged.stdout + damaged.stderr
