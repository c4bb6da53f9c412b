"""A container of Azure's storage on 127.0.0.1, kept by Azurite, Microsoft's own emulator (`npm install -g azurite`)."""

import base64
import datetime
import hashlib
import hmac
import secrets
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ACCOUNT = "devstoreaccount1"  # every Azurite has it, with this key
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def serve_azure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run Azurite in `folder`, and give the URL of a new container. Skips where it is not installed."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite-blob is not installed (npm install -g azurite)")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    container = f"sets-{secrets.token_hex(6)}"
    place = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    server = subprocess.Popen([program, *place, "--silent", "--disableTelemetry"], stdout=subprocess.DEVNULL)
    try:
        _create_container(port, container)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", _ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", _KEY)
        monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield f"az://{container}"
    finally:
        server.terminate()
        server.wait()


def _create_container(port: int, name: str) -> None:
    """Asks with the account's key, as the service's documentation says (Authorize with Shared Key)."""
    now, version = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"), "2021-08-06"
    asked = f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
    signed = "\n".join(["PUT", *([""] * 11), f"x-ms-date:{now}", f"x-ms-version:{version}", asked])
    signature = base64.b64encode(hmac.new(base64.b64decode(_KEY), signed.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": now, "x-ms-version": version, "Content-Length": "0"}
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
    url = f"http://127.0.0.1:{port}/{_ACCOUNT}/{name}?restype=container"
    for attempt in range(100):  # until it listens
        try:
            urllib.request.urlopen(urllib.request.Request(url, None, headers, method="PUT")).close()
            return
        except urllib.error.URLError:
            if attempt == 99:
                raise
            time.sleep(0.1)
