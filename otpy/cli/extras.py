"""Packages that the commands need beyond plain otpy."""

from __future__ import annotations

from otpy import OtpyError


class MissingExtra(OtpyError):
    """A needed package is not installed; the message says how to install it."""
