"""What the words of an error message mean, for all CLIs; looked up in the final message only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from otpy_agents.run.adapter import Wording
from otpy_agents.run.failures import Detail

__all__ = ["WORDINGS", "by_words", "is_long_limit", "is_short_limit"]


def _wording(detail: Detail, *alternatives: str) -> Wording:
    return Wording(detail, re.compile("|".join(alternatives), re.IGNORECASE))


_RATE_LIMIT: Final = r"(?<![\w/.\\-])rate[ -]limit"
_WORD_END: Final = r"(?![\w/\\@-]|\.\w)"

# In the order they are tried: what is said of one thing only first, then RUN-39.
WORDINGS: Final[Sequence[Wording]] = (
    _wording(
        Detail.CRASH,
        r"heap out of memory",
        r"\bsegmentation fault\b",
        r"\bthread '[^']*'(?: \(\d+\))? panicked at\b",
        r"\bcore dumped\b",
        r"\bstd::bad_alloc\b",
    ),
    _wording(
        Detail.USAGE,
        r"\bunknown (?:option|argument|flag|command)",
        r"(?m:^usage: )",
        r"\bunexpected argument\b",
        r"\bunrecognized (?:option|argument|subcommand)",
        r"\b(?:argument|option) missing\b",
        r"\brequired (?:argument|option)s?\b",
        r"\binvalid (?:command format|option|argument:|value '[^']*' for)",
        r"\bcannot be used with\b",
        r"\bnot inside a trusted directory\b",
        r"\b(?:not|un)[ -]?trusted (?:folder|directory|workspace)",
        r"\b(?:folder|directory|workspace) is not trusted\b",
        r"\bno (?:input|prompt) (?:was )?provided\b",
        r"\binput must be provided\b",
        r"\bcommand not found\b",
        r"\bexecutable file not found\b",
        r"^(?:/\S+/)?(?:ba|da|z)?sh: (?:line )?(?:\d+: )?.{1,200}: not found\b",
        r"\bno such file or directory.{0,20}(?:claude|codex|gemini|copilot)\b",
        r"\bspawn \S{1,200} (?:ENOENT|EACCES)\b",
        r"\bEACCES\b",
        r"\berror (?:loading|parsing|reading) (?:the )?config",
        r"\binvalid (?:config|configuration|settings)\b",
    ),
    _wording(
        Detail.SESSION_CONFLICT,
        r"\bsession\b.{0,80}\b(?:is )?(?:already|currently) (?:in use|active|open|running|locked)",
        r"\balready has an active (?:prompt|turn|run)\b",
    ),
    _wording(
        Detail.SESSION_INVALID,
        r"\bno (?:saved |previous )?(?:conversations?|sessions?|rollout)\b.{0,30}"
        r"\b(?:found|matched|with)\b",
        r"\b(?:session|conversation|thread)(?: id)?\b.{0,80}\b(?:not found|does not exist)\b",
        r"\b(?:unknown|invalid|nonexistent) (?:session|conversation|thread)\b",
        r"\berror resuming session\b",
        r"\b(?:thread|session)/resume failed\b",
        r"\brequires a valid session\b",
        r"\bno session, task, or name matched\b",
        r"\bprevious response id not found\b",
    ),
    _wording(
        Detail.BUDGET,
        r"\bmaximum budget\b",
        r"\bmax(?:imum)?(?: number of)?(?: session)? turns\b",
        r"\b(?:budget|cost limit)\b.{0,40}\b(?:exceeded|exhausted|reached|used up)\b",
        r"\breached (?:my|your|the) cost limit\b",
        r"\bmax(?:imum)? session turns\b",
    ),
    _wording(
        Detail.CONTEXT_OVERFLOW,
        r"\b(?:prompt|input|conversation|request)(?: is| as|) too (?:long|large)\b",
        r"\bcontext[ _](?:window|length|size|limit)s?\b.{0,40}\b(?:exceed|overflow|full|too)",
        r"\bexceed\w*\b.{0,60}\bcontext (?:window|length|limit)",
        r"\bout of room in the model's context\b",
        r"\bmaximum context (?:window|length)\b",
        r"\btoken count\b.{0,60}\bexceeds?\b",
        r"\bexceeds? the maximum (?:number of (?:input )?tokens|(?:input )?token)",
        r"\brequest entity too large\b",
    ),
    _wording(
        Detail.QUOTA,
        r"\busage limits?\b",
        r"\b(?:hit|reached|exceeded) (?:your|the|my)(?! (?:\S+ ){0,3}rate)(?: [\w-]+){0,3} limit\b",
        r"\b(?:\d+-hour|hourly|daily|weekly|monthly|opus|sonnet|session|spend(?:ing)?|plan|free"
        r"(?: tier)?) (?:usage )?(?:limit|quota|allowance)\b.{0,20}"
        r"\b(?:reached|exceeded|exhausted|hit)\b",
        r"\bexhausted (?:your|the)\b.{0,40}\b(?:quota|capacity)\b",
        r"\b(?:exceeded|reached|hit|exhausted) (?:your|the|my)(?: [\w-]+){0,3}"
        r" (?:quota|allowance)\b",
        r"\bquota\b.{0,40}\b(?:exceeded|exhausted|used up|reached)\b",
        r"\b(?:insufficient|have no) quota\b",
        r"\baccount's rate limit\b",
        r"\bout of (?:extra )?usage\b",
        r"\ballowance reached\b",
    ),
    _wording(
        Detail.RATE_LIMIT,
        # As a thing of its own it may be a branch, a test or a setting; something has to happen.
        rf"{_RATE_LIMIT}ed{_WORD_END}",
        rf"\b(?:by|due to|because of|subject to|is|are) {_RATE_LIMIT}ing{_WORD_END}",
        rf"{_RATE_LIMIT}s?(?: [\w.-]+){{0,5}} (?:exceeded|reached|hit|exhausted|error)\b",
        r"\b(?:exceed|hit|reach|trigger|violat)\w*(?: [^\s:]+){1,6}? "
        rf"{_RATE_LIMIT}s?{_WORD_END}",
        r"\b(?:over|because of|due to|under|subject to)(?: [^\s:]+){0,3}? "
        rf"{_RATE_LIMIT}s?{_WORD_END}",
        rf"^(?:\w+: )?{_RATE_LIMIT}s?(?:\W{{1,3}}$|[:;(]|$)",
        r"\btoo many requests\b",
        r"\bresource (?:has been )?exhausted\b",
        r"\bthrottl(?:ed|ing)\b",
    ),
    _wording(
        Detail.BILLING,
        r"\bcredit balance\b",
        r"\bbilling (?:hard limit|is not|not active|disabled|account)",
        r"\b(?:enable|set up) billing\b",
        r"\binsufficient (?:balance|credits?|funds)\b",
        r"\b(?:out of|no more|add) credits\b",
        r"\bpayment required\b",
        r"\blocation is not supported\b",
        r"\bfree tier is not available\b",
        r"\bupgrade to (?:plus|pro|a paid)\b",
        r"\b(?:subscription|license)s?\b.{0,40}\b(?:expired|required|inactive|not found)\b",
        r"\bno (?:active|valid)\b.{0,40}\bsubscription\b",
    ),
    _wording(
        Detail.MODEL_UNAVAILABLE,
        r"\bissue with the selected model\b",
        r"\bmodels?\b.{0,100}\b(?:does not exist|not found|is not (?:available|supported|found|"
        r"enabled|a (?:valid|known) model))\b(?! right now)",
        r"\b(?:unknown|invalid|unsupported) model\b",
        r"\bis not found for api version\b",
        r"\b(?:opus|sonnet|haiku) is not available\b",
    ),
    _wording(
        Detail.AUTH,
        r"\bnot logged in\b",
        r"\bplease (?:run /?|use /?)?log ?in\b",
        r"\b(?:run|use|please|try|then)(?: the)? ['\"`]?/login\b",
        r"\b(?:invalid|incorrect|missing) (?:x-)?api[ -]key\b",
        r"\bapi[ -]key\b.{0,40}\b(?:not valid|not found|expired|invalid|missing|revoked)\b",
        r"\bfailed to authenticate\b",
        r"\bauthentication (?:failed|required|error|is required)\b",
        r"\bnot authenticated\b",
        r"\bno authentication information\b",
        r"\b(?:oauth|access|refresh|session|bearer) token\b.{0,60}"
        r"\b(?:expired|revoked|invalid|refreshed)\b",
        r"\binvalid (?:bearer |access )?token\b",
        r"\binvalid authentication\b",
        r"\bmissing bearer\b",
        r"\bset an auth method\b",
        r"\bunauthorized\b",
        r"\bmissing environment variable: \W?\w*(?:KEY|TOKEN)\b",
        r"\bmust specify the \w*API_KEY\b",
        r"\bdoes not have (?:permission|access)\b",
        r"\bpermission denied\b",
        r"\borganization has (?:been )?disabled\b",
        r"\baccess (?:denied|blocked)\b",
    ),
    _wording(
        Detail.OVERLOADED,
        r"\boverloaded\b",
        r"\bhigh demand\b",
        r"\bat capacity\b",
        r"\bcapacity unavailable\b",
        r"\b(?:service|temporarily) unavailable\b",
    ),
    _wording(
        Detail.PROTOCOL,
        r"\bnot valid json\b",
        r"\binvalid json\b",
        r"\bunexpected (?:token|end of json|non-whitespace)\b",
        r"\bincomplete json\b",
        r"\bmalformed\b.{0,20}\b(?:response|json|stream)\b",
        r"\bwithout a finish reason\b",
        r"\bexpected value at line \d+ column \d+",
        r"\bfailed to (?:parse|decode|deserialize)\b.{0,30}\b(?:response|stream|sse|json|event)\b",
        r"\bempty response\b",
    ),
    _wording(
        Detail.NETWORK,
        r"\bstream (?:disconnected|closed|error)\b",
        r"(?<!gateway )\btim(?:ed|e) ?out\b",
        r"\bconnection (?:error|refused|reset|failed|closed|aborted|lost|timed)",
        r"\b(?:unable|failed|could not|cannot) to? ?connect\b",
        r"\bfetch failed\b",
        r"\bnetwork (?:error|is unreachable|connection|request failed)\b",
        r"\bwaiting for network\b",
        r"\bsocket hang up\b",
        r"\b(?:ECONN(?:RESET|REFUSED|ABORTED)|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|E(?:HOST|NET)UNREACH)\b",
        r"\bgetaddrinfo\b",
        r"\blookup address\b",
        r"\berror sending request\b",
        r"\b(?:tls|ssl)\b.{0,30}\b(?:handshake|certificate|error|verification)\b",
        r"\bself[- ]signed certificate\b",
        r"\b(?:premature close|other side closed|no route to host)\b",
        r"\berror while reading the server response\b",
        r"\breconnecting\b",
    ),
    _wording(
        Detail.SERVER_ERROR,
        r"\binternal (?:server )?error\b",
        r"\bserver(?:-side)? error\b",
        r"\bserver had an error\b",
        r"\bbad gateway\b",
        r"\bgateway time-?out\b",
        r"\bdeadline expired\b",
    ),
)
"""Words shared by all CLIs."""

_LONG: Final = re.compile(
    r"\b(?:per[ -]?(?:day|week|month)|daily|weekly|monthly|usage limits?|spend(?:ing)? limit)\b"
    r"|Per(?:Day|Week|Month)|account's rate limit",
    re.IGNORECASE,
)
_SHORT: Final = re.compile(
    r"\bper[ -]?(?:second|sec|minute|min)\b|\b(?:TPM|RPM|RPS|ITPM|OTPM)\b|Per(?:Minute|Second)",
    re.IGNORECASE,
)


def by_words(message: str, wordings: Sequence[Wording], *, cut: bool = False) -> Detail | None:
    """Return what the first of `wordings` that is found in `message` stands for.

    Args:
        message: The words.
        wordings: In the order they are tried.
        cut: Whether a time limit ended the attempt.
    """
    for wording in wordings:
        if (cut or not wording.cut) and wording.pattern.search(message):
            return wording.detail
    return None


def is_long_limit(message: str) -> bool:
    """Return whether `message` speaks of a limit for days, or of a plan."""
    return _LONG.search(message) is not None


def is_short_limit(message: str) -> bool:
    """Return whether `message` speaks of a limit for seconds or minutes."""
    return _SHORT.search(message) is not None
