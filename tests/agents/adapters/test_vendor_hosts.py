from __future__ import annotations

import pytest

from otpy_agents.adapters.registry import BUILT_IN
from otpy_agents.adapters.vendor_hosts import VENDOR, vendor_hosts
from otpy_agents.sandbox.allowlist import allowed_host


@pytest.mark.parametrize("cli", sorted(set(BUILT_IN) - {"command"}))
def test_every_agent_of_ours_has_hosts_that_can_be_let_through(cli: str) -> None:
    """ENG-12: each is an entry of an allowlist, at the port of HTTPS."""
    entries = [allowed_host(host) for host in vendor_hosts(cli)]
    assert entries
    assert {None if entry is None else entry.port for entry in entries} == {443}


@pytest.mark.parametrize("cli", ["command", "somebody-elses"])
def test_of_others_nothing_is_known(cli: str) -> None:
    """The user has to name their hosts."""
    assert vendor_hosts(cli) == ()


def test_the_word_for_them_is_no_host_of_anybody() -> None:
    """A single name without a port could only be a host of the local network."""
    assert "." not in VENDOR
