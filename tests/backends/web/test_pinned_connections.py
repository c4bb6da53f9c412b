"""Which addresses are public, and that only such a one is ever dialled."""

import asyncio
import ipaddress
import socket
import time

import pytest

from querytruth.backends.web.pinned_connections import Address, AddressResolver, is_public, look_up_with_system
from querytruth.backends.web.web_records import RefusedFetch

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


def public_addresses(book: AddressResolver, host: str) -> list[Address]:
    """What may be dialled for a name."""
    return asyncio.run(book.resolve_public(host, 80))


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "192.0.1.0",
        "198.17.255.255",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2400:da00::6666",
        "2a02:ec80:300:ed1a::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ],
)
def test_addresses_of_the_public_internet(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
        *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
        *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255"),
        *("240.0.0.1", "255.255.255.255", "168.63.129.16"),
        *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1"),
        *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1"),
        *("2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1"),
        *("2001::1", "2001:0:808:808:0:0:80ff:fffe", "2001:2::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1"),
        *("2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1", "4000::1", "2620:4f:8000::1"),
    ],
)
def test_all_others_whatever_they_are_wrapped_in(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


def test_only_the_public_ones_among_a_name_s_addresses_may_be_dialled() -> None:
    book = AddressResolver(lambda _host, _port: ["127.0.0.1", "8.8.8.8", "fe80::1%eth0", "::ffff:10.0.0.1"])
    assert public_addresses(book, "mixed.example") == [ipaddress.ip_address("8.8.8.8")]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.1.2.3", "169.254.169.254"])
def test_a_numeric_host_needs_no_look_up_and_is_judged_as_any(host: str) -> None:
    """aiohttp asks for no addresses of such a host; that of the socket is looked at."""
    with pytest.raises(RefusedFetch, match=f"address_not_public: {host}"):
        AddressResolver().open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, 80)))


def test_a_name_server_that_changes_its_mind_changes_nothing() -> None:
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])
    book = AddressResolver(lambda _host, _port: next(answers))
    assert [public_addresses(book, "rebound.example") for _ in range(5)] == [[ipaddress.ip_address("8.8.8.8")]] * 5


def test_a_name_that_leads_inside_is_refused_with_what_it_leads_to() -> None:
    with pytest.raises(RefusedFetch, match=r"address_not_public: 127\.0\.0\.1"):
        public_addresses(AddressResolver(lambda _host, _port: ["127.0.0.1"]), "inside.example")
    with pytest.raises(RefusedFetch, match="address_not_public"):
        public_addresses(AddressResolver(look_up_with_system), "localhost")


def test_the_switch_for_tests_opens_its_own_networks_only() -> None:
    book = AddressResolver(lambda _host, _port: ["127.0.0.1", "10.0.0.1"], [LOOPBACK])
    assert public_addresses(book, "here.example") == [ipaddress.ip_address("127.0.0.1")]
    assert not book.is_allowed(ipaddress.ip_address("10.0.0.1"))
    assert not book.is_allowed(ipaddress.ip_address("::ffff:127.0.0.1"))


def test_a_look_up_that_does_not_end_is_left_alone() -> None:
    start = time.monotonic()
    with pytest.raises(RefusedFetch, match="lookup_timed_out"):
        public_addresses(AddressResolver(lambda _host, _port: time.sleep(5) or [], seconds=0.1), "slow.example")
    assert time.monotonic() - start < 4


def test_a_name_that_nobody_has_is_told_without_a_traceback() -> None:
    def unknown(_host: str, _port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(RefusedFetch, match="no_such_host: Name or service not known"):
        public_addresses(AddressResolver(unknown), "nowhere.example")
