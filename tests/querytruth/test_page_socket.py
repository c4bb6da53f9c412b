"""Where the review page listens: loopback, or an address that is named."""

import pytest

from builders.errors import UserError
from querytruth.page_socket import open_page_socket


def test_a_named_address_is_listened_at() -> None:
    with open_page_socket("127.0.0.2", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.2"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("0.0.0.0", "is every address"),
        ("::", "is every address"),
        ("no such host", "cannot be resolved"),
        ("192.0.2.1", "cannot be listened at"),
    ],
)
def test_what_is_no_address_of_this_machine_is_one_line(host: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        open_page_socket(host, 0)


def test_a_port_in_use_is_named() -> None:
    with open_page_socket("127.0.0.1", 0) as first, pytest.raises(UserError, match=r"port .* cannot be listened at"):
        open_page_socket("127.0.0.1", first.getsockname()[1])
