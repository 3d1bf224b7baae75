"""The hosts that a list names, and the addresses that a name may lead to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.sandbox.allowlist import Allowlist, Destination, allowed_host, authority


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("api.example.com", Destination("api.example.com", 443)),
        ("API.Example.COM.", Destination("api.example.com", 443)),
        ("api.example.com:8443", Destination("api.example.com", 8443)),
        ("*.example.com", Destination("*.example.com", 443)),
        ("localhost:80", Destination("localhost", 80)),
        ("10.0.0.5", Destination("10.0.0.5", 443)),
        ("[::1]:8080", Destination("::1", 8080)),
        ("0:0:0:0:0:0:0:1", Destination("::1", 443)),
    ],
)
def test_an_entry_is_a_host_with_a_port(text: str, entry: Destination) -> None:
    """The port is 443 by default; all spellings of an entry have one form."""
    assert allowed_host(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.com",
        "*.10.0.0.5",
        "a.*.com",
        "https://a.com",
        "a.com/path",
        "me@a.com",
        "a.com:0",
        "a.com:65536",
        "a.com:",
        "a.com:٤٤٣",
        "a b.com",
        "a..com",
        "-a.com",
        "bücher.de",
        "[a.com]:443",
        "[::1]443",
        "a.com\r\n",
        "x" * 254,
    ],
)
def test_what_is_no_host_is_no_entry(text: str) -> None:
    """A pattern for half of the world is no entry, either, nor is an address in disguise."""
    assert allowed_host(text) is None


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("api.example.com:443", True),
        ("API.EXAMPLE.COM.:443", True),
        ("api.example.com:80", False),
        ("example.com:443", False),
        ("evil-api.example.com:443", False),
        ("api.example.com.evil.org:443", False),
        ("a.wild.org:443", True),
        ("a.b.wild.org:443", True),
        ("wild.org:443", False),
        ("badwild.org:443", False),
        ("10.0.0.5:8080", True),
        ("[::ffff:10.0.0.5]:8080", True),
        ("10.0.0.5:443", False),
        ("169.254.169.254:443", False),
        ("2852039166:443", False),
        ("0xa9fea9fe:443", False),
    ],
)
def test_only_what_stands_in_the_list_is_named(asked: str, named: bool) -> None:
    """Host and port, whole; a star stands for names below, at any depth."""
    allowed = Allowlist.of(["api.example.com", "*.wild.org", "10.0.0.5:8080"])
    target = authority(asked)
    assert target is not None
    assert allowed.names(target) is named


@pytest.mark.parametrize(
    "asked",
    [
        "api.example.com",
        "me@api.example.com:443",
        "api.example.com:443@evil.org:443",
        "api.example.com:443/x",
        "api.example.com :443",
        "api.example.com\t:443",
        "api.example.com%00.evil.org:443",
        "http://api.example.com:443",
        ":443",
        "api.example.com:+443",
    ],
)
def test_a_wish_is_a_plain_host_and_port(asked: str) -> None:
    """Nothing is cut off or guessed."""
    assert authority(asked) is None


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),  # noqa: S104
        *("169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
        *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fe80::1%lo"),
    ],
)
def test_a_name_may_not_lead_into_this_network(address: str) -> None:
    """The name service cannot change that; nor can an IPv6 form hide such an address."""
    assert not Allowlist.of(["api.example.com"]).reaches(address, 443)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_a_name_may_lead_to_a_public_address(address: str) -> None:
    """Vendors have public addresses."""
    assert Allowlist.of(["api.example.com"]).reaches(address, 443)


def test_an_address_of_this_network_may_be_listed() -> None:
    """It must be listed itself, with its port."""
    allowed = Allowlist.of(["inside.example.com:8080", "10.0.0.5:8080"])
    assert allowed.reaches("10.0.0.5", 8080)
    assert not allowed.reaches("10.0.0.5", 443)
    assert not allowed.reaches("10.0.0.6", 8080)


@given(st.ip_addresses(), st.integers(1, 65535))
def test_any_address_can_be_listed_and_asked_for(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    """An entry and a request are read alike, and the form that people see is read as the same."""
    entry = allowed_host(f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}")
    assert entry is not None
    assert authority(str(entry)) == entry
    assert Allowlist(frozenset({entry})).names(entry)


@given(st.text(max_size=40))
def test_no_text_is_read_as_more_than_a_host(text: str) -> None:
    """A host has only characters that cannot mean something else."""
    for entry in (allowed_host(text), authority(text)):
        assert entry is None or set(entry.host) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-:*%")
