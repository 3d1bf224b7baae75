"""Leaves of an error message what may be judged by its words.

Programs speak of their own names as vendors do of limits: a column `quota_exceeded` that is not
there, a test of `rate_limit` that failed, a branch, a rule, an address. None of that says anything
about the vendor.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["prose", "without_denials"]

_ADDRESS: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>)\]}]+", re.IGNORECASE)
# "Not your usage limit" speaks of the limit that it is not.
_DENIED: Final = re.compile(
    r"\bnot (?:related to |due to |because of )?(?:your|a|an|the)(?: [\w'’-]+){0,3} limits?\b",
    re.IGNORECASE,
)
# One word in quotes is a name, unless it is the value of a field. Names in capitals are kept: they
# are variables of the environment, which the user has to set.
_QUOTED: Final = re.compile(
    r"(?<!['\"]: )(?<!['\"]:)([‘'\"`])(?=[\w-]{0,80}[a-z])[\w-]{1,80}([’'\"`])"
    # Nobody sets sentences between backticks.
    r"|(?<!run )(`)(?=[^`\n]{0,80}[a-z])[^`\n]{1,80}(`)"
)
_TITLE: Final = re.compile(
    r"\b(case|job|scenario|snapshot|spec|step|suite|task|test) ([\"'])[^\"'\n]{1,80}[\"']"
)
# Exceptions that are always about a program's own names and values.
_EXCEPTION: Final = (
    r"^\W{0,4}(?:E\s{1,8})?(?:\w{1,20}:? ){0,2}(?:[\w.]{1,80}\.)?"
    r"(?:Key|Name|Attribute|ModuleNotFound|Import|Assertion|UnboundLocal|Index|Reference"
    r"|Indentation|NotImplemented|NoSuch\w{1,20}|ClassNotFound|NoClassDefFound)(?:Error|Exception)\b"
)
_TEST: Final = (
    r"^(?:E\s{3,8}\S|--- FAIL: |Failures: |not ok \d|FAIL(?:ED)?\s+\S{1,200}(?:::|\.\w)"
    r"|\s*(?:left|right|Expected|Received): |\s*(?:\d{1,4}\)|●) )"
    r"|\bexpect\(|\b[Aa]ssertion (?:`[^`\n]{0,80}` )?failed\b"
    r"|\bassert [^\n]{1,80}(?:[=!]=| is | in )"
    r"|\b[Ee]xpected\b.{0,60}\b(?:got|received|found|was)\b.{0,20}\b\d{3}\b"
)
_TOOL: Final = r"^g?make(?:\[\d+\])?: \*\*\*|^CONFLICT \("
_THINGS: Final = (
    "attribute|class|column|crate|field|function|identifier|import|keyword|macro|member|method"
    "|module|name|overload|package|property|reference|relation|rule|symbol|table|target|type"
    "|value|variable"
)
_MISSING: Final = (
    r"(?<!_KEY)(?<!_TOKEN) is not defined\b"
    r"|\b(?:is )?not an? (?:constructor|function|member|module|package)\b"
    rf"|\b(?:has )?no (?:\w{{1,20}} )?(?:{_THINGS})\b"
    r"|\bno such (?!(?:host|file|option|command|model|session|conversation)\b)"
    rf"|\b(?:can(?:not|'t)|could(?: not|n't)) (?:find|import|locate|resolve) (?:{_THINGS})\b"
    rf"|\b(?:undefined|undeclared|unresolved|unknown|unexpected|duplicated?|unused)"
    rf" (?:{_THINGS})\b"
    r"|\bundefined: |\bsymbol\(s\)|\bproperties of (?:undefined|null)\b"
    rf"|\b(?:{_THINGS}) \S{{1,80}} does not exist\b"
    r"|\bcannot (?:access|open|remove|stat) "
    r"|\bd(?:id|oes) not match any(?: file\b|$)|\bunknown revision\b"
)
_ABOUT_NAMES: Final = re.compile(f"{_EXCEPTION}|{_TEST}|{_TOOL}|(?i:{_MISSING})")


def prose(message: str) -> str:
    """Return `message` without addresses, denials, quoted names and lines about a program's names.

    The words of what is left are the vendor's or the CLI's own.
    """
    kept = "\n".join(line for line in message.split("\n") if not _ABOUT_NAMES.search(line))
    kept = _TITLE.sub(r"\1 \2…\2", _ADDRESS.sub("…", kept))
    return _QUOTED.sub(r"\1\3…\2\4", without_denials(kept))


def without_denials(message: str) -> str:
    """Return `message` without the limits that it says were not reached."""
    return _DENIED.sub("", message)
