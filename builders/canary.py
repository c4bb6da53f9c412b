"""The canary of a version: a text by which copies of its card or manifest are found in a text corpus."""

from uuid import NAMESPACE_URL, uuid5


def make_canary(content_digest: str) -> str:
    """Returns the canary; each content has its own."""
    return f"querytruth-canary {uuid5(NAMESPACE_URL, f'querytruth:{content_digest}')}"
