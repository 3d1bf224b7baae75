"""Which hosts an attempt may reach: a list of names and addresses with their ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias, final

from attrs import frozen

__all__ = ["ALLOWED_HOST", "HTTPS", "Allowlist", "Destination", "allowed_host", "authority"]

HTTPS: Final = 443
"""The port of an entry that names none."""

ALLOWED_HOST: Final = (
    "a name as api.example.com or *.example.com, or an address; perhaps with :PORT"
)
"""What an entry of a list may be, for messages."""

_Address: TypeAlias = IPv4Address | IPv6Address

_NAME: Final = re.compile(r"(?!.{254})[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_LAST_PORT: Final = 65535
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOW: Final = 0xFFFFFFFF


@final
@frozen
class Destination:
    """A host and a port.

    Attributes:
        host: A name in small letters without a final dot, or an address in its usual form. In a
            list it may begin with `*.`, for every name that ends so.
        port: From 1 to 65535.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def allowed_host(text: str) -> Destination | None:
    """Return the entry of a list that a person wrote as `text`; None if it is none."""
    host, port = _split(text)
    name = host.removeprefix("*.")
    found = _destination(name, port if port is not None else str(HTTPS))
    if found is None or name == host:
        return found
    # `*.com` would be half of the world, and an address has no names below it.
    return (
        None if "." not in name or is_address(name) else Destination(f"*.{found.host}", found.port)
    )


def authority(text: str) -> Destination | None:
    """Return the target of a client's `CONNECT`; None unless it is a plain `HOST:PORT`."""
    host, port = _split(text)
    return None if port is None else _destination(host, port)


def is_address(host: str) -> bool:
    """Tell whether a host is an address."""
    return _address(host) is not None


@final
@frozen
class Allowlist:
    """The hosts an attempt may reach.

    Attributes:
        entries: As `allowed_host` returns them.
    """

    entries: frozenset[Destination]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Allowlist:
        """Return the list of these entries; those that are none are left out."""
        found = (allowed_host(text) for text in texts)
        return cls(frozenset(one for one in found if one is not None))

    def names(self, asked: Destination) -> bool:
        """Tell whether it names the target."""
        if asked in self.entries:
            return True
        _, *parents = _ancestors(asked.host)
        return any(Destination(f"*.{one}", asked.port) in self.entries for one in parents)

    def reaches(self, address: str, port: int) -> bool:
        """Tell whether an address may be connected to that a named host has.

        A public one may. Any other has to stand in the list by itself: a name that leads into
        this machine or this network is how such a list is got around.
        """
        found = _address(address)
        if found is None:
            return False
        return _is_public(found) or Destination(str(found), port) in self.entries


def _ancestors(host: str) -> list[str]:
    """Return a name and the names above it; of an address only itself."""
    labels = [host] if is_address(host) else host.split(".")
    return [".".join(labels[start:]) for start in range(len(labels))]


def _split(text: str) -> tuple[str, str | None]:
    """Return the host and the port of `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or an address."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        # A name in brackets, or something behind them, becomes no host.
        if not rest:
            return (host if ":" in host else "", None)
        return (host if ":" in host and rest[0] == ":" else "", rest[1:])
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _destination(host: str, port: str) -> Destination | None:
    number = int(port) if _PORT.fullmatch(port) else 0
    if not 0 < number <= _LAST_PORT:
        return None
    found = _address(host)
    if found is not None:
        return Destination(str(found), number)
    name = host.lower().removesuffix(".")
    return Destination(name, number) if _NAME.fullmatch(name) else None


def _address(text: str) -> _Address | None:
    """Return the address that a text is; of an IPv4 address within an IPv6 one, that."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found
    if found in _NAT64:
        return IPv4Address(int(found) & _LOW)
    return found.ipv4_mapped or found.sixtofour or found


def _is_public(address: _Address) -> bool:
    return address.is_global and not address.is_multicast
