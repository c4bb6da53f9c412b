"""The likely cause of an endpoint's failure, with its address: what a user can correct."""

from urllib.parse import urlsplit

from backends.chat import Failure

_API_FOLDERS = ("/v1", "/compatible-mode/v1", "/v1beta/openai", "/api/v3", "/v4")  # of the usual services
_ANSWERS_OF_OTHER_PATHS = frozenset({"not_found", "not_json", "not_an_answer", "redirected"})


def explain_failure(base_url: str, name: str, key_env: str | None, failure: Failure) -> str:
    """Returns the address and, where the failure has a likely cause, that cause; "" where it is about one question."""
    cause = _find_cause(base_url, name, key_env, failure)
    return f"at {base_url}" + (f": {cause}" if cause else "")


def _find_cause(base_url: str, name: str, key_env: str | None, failure: Failure) -> str:
    address = urlsplit(base_url)
    has_api_folder = address.path.rstrip("/").endswith(_API_FOLDERS)
    if failure.reason in _ANSWERS_OF_OTHER_PATHS and not has_api_folder:
        return f"the address may lack /v1: try base_url: {base_url.rstrip('/')}/v1"
    if failure.reason == "not_found":
        return f"the server may not have a model {name!r}: {base_url.rstrip('/')}/models lists those that it has"
    if failure.reason == "tls_error":
        return "the server may speak plain http://, or its certificate is not one that this machine trusts"
    if failure.reason in ("unauthorized", "forbidden"):
        return f"the key in {key_env} may be wrong" if key_env else "it may want a key: name its variable as key_env"
    if failure.reason == "connection_failed":
        if "NameResolution" in failure.detail or "gaierror" in failure.detail:
            return f"there is no host {address.hostname!r}, or its name server does not answer"
        return "nothing may listen there: start the server, or correct host and port"
    return ""
