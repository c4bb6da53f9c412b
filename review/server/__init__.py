"""The local web page on which people judge: FastAPI on loopback. Files and models stay outside; see `Outside`."""
