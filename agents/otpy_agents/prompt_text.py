"""Templates of prompts: plain text, in which nothing may be missing."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

__all__ = ["prompt_templates"]


@cache
def prompt_templates(folder: Path) -> Environment:
    """Return the templates in a folder; one that names what it was not given fails.

    Args:
        folder: Where the files of a package lie.
    """
    # Prompts are plain text: escaping for HTML would change what agents read.
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - as above
    )
