"""The error messages of vendors and their CLIs, and the failures they stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from otpy_agents.adapters.adapter import Wording
from otpy_agents.attempt.failures import Detail

__all__ = ["NO_CREDIT", "WORDINGS"]


def _wording(detail: Detail, *alternatives: str) -> Wording:
    return Wording(detail, re.compile("|".join(alternatives), re.IGNORECASE))


_RATE_LIMIT: Final = r"(?<![\w/.\\-])rate[ -]limit"
NO_CREDIT: Final = (
    r"\b(?:no|out of|insufficient|not enough|requires? more)(?: \w+){0,2} credits?\b"
    r"|\bcredits?\b.{0,30}\b(?:depleted|exhausted|used up|run out)\b"
)
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
        r"\barguments? (?:is|are) required\b",
        r"\binvalid (?:command format|option|argument:|choice:|value '[^']*' for)",
        r"\boption '[^'\n]{1,80}' argument\b.{0,80}\bis invalid\b",
        r"\ballowed choices are\b",
        r"\bno such (?:option|command|subcommand)\b",
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
        r"\[Errno 13\]|\(os error 13\)",
        r"/[^\s:]{0,200}: permission denied\s{0,4}$",
        r"\bexec format error\b",
        r"\bcannot execute binary\b",
        r"\berror while loading shared libraries\b",
        r"\bversion `GLIBC",
        r"\brequires? node(?:\.?js)?\b",
        r"\berror (?:loading|parsing|reading) (?:the )?config",
        r"\binvalid (?:\w{1,20} )?(?:config|configuration|settings)\b",
        r"\b(?:config(?:uration)?|settings) file (?:is |was )?(?:not found|missing)\b",
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
        r"\bcontext[ _](?:window|length|size|limit)s?\b.{0,40}"
        r"\b(?:exceed|overflow|full\b|reached|too\b)",
        r"\bexceed\w*\b.{0,60}\bcontext (?:window|length|limit|size)",
        r"\bout of room in the model's context\b",
        r"\bmaximum (?:context|input|prompt) (?:window|length|size)\b",
        r"\b\d+ tokens? > \d+",
        r"\bexceeds?\b.{0,40}\bmaximum of \d+ tokens\b",
        r"\btoo many (?:input|prompt) tokens\b",
        r"\breduce the length of (?:your|the)\b",
        r"\bpayload size exceeds\b",
        r"\btoken count\b.{0,60}\bexceeds?\b",
        r"\bexceeds? the maximum (?:number of (?:input )?tokens|(?:input )?token)",
        r"\brequest entity too large\b",
    ),
    _wording(
        Detail.QUOTA,
        r"\busage limits?\b",
        r"\b(?:hit|reached|exceeded) (?:your|the|my)(?! (?:\S+ ){0,3}rate)(?: [\w-]+){0,3} limit\b",
        r"\b(?:\d+-hour|hourly|daily|weekly|monthly|opus|sonnet|session|spend(?:ing)?|plan|key|free"
        r"(?: tier)?) (?:usage )?(?:limit|quota|allowance)\b.{0,20}"
        r"\b(?:reached|exceeded|exhausted|hit)\b",
        r"\bexhausted (?:your|the)\b.{0,40}\b(?:quota|capacity)\b",
        r"\b(?:exceeded|reached|hit|exhausted) (?:your|the|my)(?: [\w-]+){0,3}"
        r" (?:quota|allowance|credits)\b",
        r"\bquota\b.{0,40}\b(?:exceeded|exhausted|used up|reached)\b",
        r"\b(?:insufficient|have no|out of)(?: \w+){0,3} quota\b",
        r"\b(?:exceeded|reach(?:ed|ing)|hit)\b.{0,40}\bspend(?:ing)? (?:cap|limit)\b",
        r"\bspend(?:ing)? (?:cap|limit)\b.{0,20}\b(?:reached|exceeded|hit)\b",
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
        r"\btoo many (?:concurrent )?requests\b",
        r"\bresource (?:has been )?exhausted\b",
        r"\bthrottl(?:ed|ing)\b",
    ),
    _wording(
        Detail.BILLING,
        r"\bcredit balance\b",
        NO_CREDIT,
        r"\bbilling (?:hard limit|is not|issue|not (?:active|configured|enabled)|disabled|account)",
        r"\bbilling to be enabled\b",
        r"\b(?:enable|set up) billing\b",
        r"\binsufficient (?:account )?(?:balance|funds)\b",
        r"\bbalance\b.{0,20}\b(?:insufficient|too low)\b",
        r"\badd credits\b",
        r"\btrial (?:has )?(?:ended|expired)\b",
        r"\bpayment (?:required|failed|declined|overdue)\b",
        r"\b(?:have|has) no (?:\w+ ){1,3}?(?:subscription|license|plan)\b",
        r"\b(?:location|territory) (?:is )?not supported\b",
        r"\bnot (?:\w+ )?available in your (?:country|location|region)\b",
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
        r"\bnot a valid model\b",
        r"\bmodel (?:id|identifier|name)\b.{0,40}\b(?:is invalid|not valid|unknown)\b",
        r"\bmodels?\b.{0,100}\b(?:isn['’]t|only) supported\b",
        r"\bmodel\b.{0,80}\b(?:deprecated|decommissioned|retired"
        r"|no longer (?:available|supported))\b",
        r"\bon-demand throughput (?:isn['’]t|is not) supported\b",
        r"(?:n['’]t|\bnot) (?:have|allowed to) access(?: to)?(?: \w+)? model\b",
        r"\bverified to use (?:the|this) model\b",
        r"\bdoes not work with the specified model\b",
        r"\bno allowed providers\b",
        r"\bdeployment\b.{0,60}\bdoes not exist\b",
        r"\bnot (?:yet )?available (?:for|on|with) (?:the|this|your)(?: \w+){0,2}"
        r" (?:account|plan|subscription|tier)\b",
        r"\bis not found for api version\b",
        r"\b(?:opus|sonnet|haiku) is not available\b",
    ),
    # Who cannot get to the vendor cannot get credentials either.
    _wording(
        Detail.NETWORK,
        r"\bproxy authentication required\b",
        r"\bfetch failed\b",
        r"\b(?:ECONN(?:RESET|REFUSED|ABORTED)|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|E(?:HOST|NET)UNREACH)\b",
        r"\bgetaddrinfo\b",
        r"\berror sending request\b",
        r"\bconnection (?:refused|reset|timed out)\b",
    ),
    _wording(
        Detail.AUTH,
        r"\bnot logged in\b",
        r"\bplease (?:run /?|use /?)?(?:log|sign) ?in\b",
        r"\b(?:log|sign)(?:ing)? in again\b",
        r"\brun ['\"`]?[\w-]{1,40}(?: auth| sso)? login\b",
        r"\blog ?in (?:is )?required\b",
        r"\b(?:run|use|please|try|then)(?: the)? ['\"`]?/login\b",
        r"\b(?:invalid|incorrect|missing) (?:x-)?api[ -]key\b",
        r"\bapi[ _-]?key\b.{0,40}\b(?:not valid|not found|expired|invalid|missing|revoked|leaked"
        r"|disabled|required|not set|to be set|must be set)\b",
        r"\b(?:provide|passing|supply|specify)\b.{0,20}\bapi[ _-]?key\b",
        r"\b(?:bad|expired|incorrect|invalid|missing|no|wrong)(?: \w+){0,2} credentials\b",
        r"\bcredentials? .{0,20}\b(?:not found|expired|invalid|missing|rejected|revoked"
        r"|required)\b",
        r"\b(?:unable|could not|cannot|failed)(?: to)? (?:find|get|load|locate|resolve|retrieve)\b"
        r".{0,20}\b(?:credentials|authentication)\b",
        r"\b(?:export|missing|requires?|set|setting)\b.{0,40}"
        r"(?-i:\b[A-Z][A-Z0-9_]{1,60}_(?:CREDENTIALS|KEY|PROJECT|TOKEN)\b)",
        r"(?-i:\b[A-Z][A-Z0-9_]{1,60}_(?:CREDENTIALS|KEY|PROJECT|TOKEN)\b)\W{1,3}"
        r"(?:environment variable )?(?:is |must be )?(?:empty|missing|not set|required|set)\b",
        r"\bno api[ -]key\b",
        r"\bfailed to authenticate\b",
        r"\bauthentication (?:failed|required|error|is required)\b",
        r"\bnot authenticated\b",
        r"\b(?:no|not created with|without) authentication\b",
        r"\bcould not read (?:password|username)\b",
        r"\b(?:oauth|access|refresh|session|bearer) token\b.{0,60}"
        r"\b(?:expired|revoked|invalid|refreshed)\b",
        r"\b(?:token|oauth session) (?:has been |has |is |was )?(?:already )?"
        r"(?:expired|revoked|invalidated)\b",
        r"\binvalid (?:bearer |access |security )?token\b",
        r"\bsecurity token included in the request\b",
        r"\b(?:invalid|wrong) subscription key\b",
        r"\bSAML (?:enforcement|SSO)\b",
        r"\binvalid authentication\b",
        r"\bmissing bearer\b",
        r"\bset an auth method\b",
        r"(?:^|[:(\[] ?|\b\d{3} |\b(?:are|is|was) )unauthorized\b|\bunauthorized(?=[:.,!]|\s*$)",
        r"\bmissing environment variable: \W?\w*(?:KEY|TOKEN)\b",
        r"\bmust specify the \w*API_KEY\b",
        r"\bdoes not have (?:permission|access)\b",
        r"\bpermission denied\b",
        r"\bnot authorized\b",
        r"\binsufficient (?:authentication )?(?:permissions?|scopes?)\b",
        r"\b(?:access|account|organization) (?:has been |is |was )"
        r"(?:deactivated|disabled|suspended|terminated|locked)\b",
        r"\baccess (?:denied|blocked)\b",
    ),
    _wording(
        Detail.OVERLOADED,
        r"\boverloaded\b",
        r"\b(?:api|engine|model|server|service|system) overload\b",
        r"\b(?:engine|servers?|service) (?:is|are) (?:\w+ )?busy\b",
        r"\bno healthy upstream\b",
        r"\bhigh demand\b",
        r"\bat capacity\b",
        r"\bcapacity (?:exceeded|unavailable)\b",
        r"\b(?:service|temporarily) unavailable\b",
    ),
    _wording(
        Detail.PROTOCOL,
        r"\bnot valid json\b",
        r"\binvalid json\b",
        r"\bunexpected (?:token|end of json|non-whitespace)\b",
        r"\bincomplete json\b",
        r"\bmalformed\b.{0,20}\b(?:response|json|stream|(?:function|tool) call)\b",
        r"\bwithout a finish reason\b",
        r"\bexpected value at line \d+ column \d+",
        r"\bfailed to (?:parse|decode|deserialize)\b.{0,30}\b(?:response|stream|sse|json|event)\b",
        r"\bempty response\b",
    ),
    _wording(
        Detail.NETWORK,
        r"(?<!gateway )\btim(?:ed|e) ?out\b(?! (?:must|of (?:flag|option)|option|setting|value)\b)",
        r"\bconnection (?:aborted|closed|error|failed|lost)\b",
        r"\b(?:unable|failed|could not|cannot) to? ?connect\b",
        r"\b(?:failed|unable) to establish (?:a )?(?:new )?connection\b",
        r"\bnetwork (?:connection|error|is (?:down|unreachable)|request failed)\b",
        r"\bsocket (?:hang up|disconnected)\b",
        r"\b(?:ERR_(?:HTTP2|NETWORK|TLS|SSL|CONNECTION)|NGHTTP2|net::ERR)_\w+",
        r"\b(?:GOAWAY|RST_STREAM)\b",
        r"\bHTTP/2 stream\b.{0,40}\b(?:not closed|reset)\b",
        r"\blookup address\b",
        r"\bno such host\b",
        r"\b(?:can['’]t|cannot|could not|couldn['’]t|failed to|unable to) resolve"
        r" (?:the )?(?:address|host|hostname|proxy|server)\b",
        r"\bname resolution\b",
        r"\b(?:name or service|servname) (?:nor? )?not known\b",
        r"\bdns (?:error|lookup|resolution)\b",
        r"\b(?:tls|ssl)\b.{0,30}\b(?:handshake|certificate|error|verification)\b",
        r"\bself[- ]signed certificate\b",
        r"\bcertificate\b.{0,40}\b(?:expired|unknown|untrusted|verif\w+|not (?:yet )?valid)\b",
        r"\b(?:get|verify) (?:\w+ ){1,3}certificate\b",
        r"\b(?:CERT_HAS_EXPIRED|UNABLE_TO_(?:GET|VERIFY)_\w+|\w*SELF_SIGNED_CERT\w*)\b",
        r"\binvalid peer certificate\b",
        r"\bx509: ",
        r"\bproxy (?:authentication|connect|connection|error|response|tunnel)\b",
        r"\b(?:premature close|other side closed|no route to host|broken pipe|unexpected eof)\b",
        r"\b(?:peer|remote end|server) (?:closed|disconnected)\b",
        r"\berror while reading the server response\b",
        r"\bstream ended (?:prematurely|unexpectedly|without receiving)\b",
        r"\bupstream connect error\b",
        r"\bempty reply from server\b",
        r"\bHTTP/?2 framing\b",
        r"\bdeadline exceeded\b",
    ),
    _wording(
        Detail.SERVER_ERROR,
        r"\binternal (?:server )?error\b",
        r"\bserver(?:-side)? error\b",
        r"\bserver had an error\b",
        r"\berror occurred (?:during|while) processing your request\b",
        r"\bbad gateway\b",
        r"\bgateway time-?out\b",
        r"\bdeadline expired\b",
    ),
    # In front of any reason, and without one the lost connection itself.
    _wording(
        Detail.NETWORK,
        r"\bstream (?:disconnected|closed|error)\b",
        r"\bwaiting for network\b",
        r"\breconnecting\b",
        r"(?:\A|: )terminated\s*\Z",
    ),
)
"""Words shared by all CLIs."""
