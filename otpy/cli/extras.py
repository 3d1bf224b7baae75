"""What the commands need that plain otpy does not install."""

from __future__ import annotations

from otpy import OtpyError


class MissingExtra(OtpyError):
    """What was asked for is not installed; the message says how to install it."""
