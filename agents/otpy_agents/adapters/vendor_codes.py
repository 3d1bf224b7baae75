"""Names and numbers by which vendors' APIs call their errors, as their documentation lists them.

Anthropic's `error.type`, OpenAI's `error.code` and `error.type`, Google's `error.status` and the
reasons in its details, GitHub's `code`, and the names the four CLIs give in fields of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from otpy_agents.attempt.failures import Detail

__all__ = ["by_code", "by_status", "by_vague_code", "codes_in", "fields_in", "status_in"]

_NAMES: Final = {
    Detail.AUTH: """
        authentication authentication_error authentication_failed authentication_required
        permission_error permission_denied unauthenticated unauthorized forbidden access_denied
        invalid_api_key api_key_invalid api_key_expired invalid_authentication invalid_token
        token_expired oauth_org_not_allowed account_deactivated consumer_suspended
        token_invalidated token_revoked invalid_grant invalid_client invalid_rapt
        unauthorized_client unrecognizedclientexception expiredtokenexception expiredtoken
        nocredentialserror defaultcredentialserror missingauthenticationtokenexception
        refresh_token_expired refresh_token_reused refresh_token_invalidated access_terminated
        fatalauthenticationerror validation_required authorization
    """,
    Detail.BILLING: """
        billing_error billing_hard_limit_reached billing_not_active billing_disabled
        insufficient_credits insufficient_g1_credits_balance credit_balance_too_low
        payment_required failed_precondition usage_not_included insufficient_balance
    """,
    Detail.QUOTA: """
        insufficient_quota quota quota_exceeded quota_exhausted usage_limit_reached
        usage_limit_exceeded terminalquotaerror quotaexceeded dailylimitexceeded
        user_weekly_rate_limited servicequotaexceededexception
    """,
    Detail.RATE_LIMIT: """
        rate_limit rate_limit_error rate_limit_exceeded rate_limited too_many_requests
        resource_exhausted user_global_rate_limited user_model_rate_limited
        integration_rate_limited ratelimitexceeded userratelimitexceeded ratelimitreached
        throttlingexception toomanyrequestsexception resourceexhausted
    """,
    Detail.OVERLOADED: """
        overloaded overloaded_error server_is_overloaded slow_down engine_overloaded
        engine_overloaded_error service_unavailable service_unavailable_error unavailable
        model_overloaded serviceunavailableexception modelnotreadyexception
    """,
    Detail.SERVER_ERROR: """
        internal internal_error internal_server_error internalserverexception bad_gateway
        deadline_exceeded timeout_error data_loss modelerrorexception modelstreamerrorexception
    """,
    Detail.NETWORK: """
        econnreset econnrefused econnaborted enotfound eai_again etimedout ehostunreach
        enetunreach connection_error network_error und_err_socket und_err_connect_timeout
        und_err_headers_timeout und_err_body_timeout apiconnectionerror modeltimeoutexception
    """,
    Detail.PROTOCOL: """
        invalid_stream no_finish_reason malformed_response parse_error no_response_text
        malformed_function_call invalid_json
    """,
    Detail.CONTEXT_OVERFLOW: """
        context_length_exceeded context_window_exceeded prompt_too_long request_too_large
        model_max_prompt_tokens_exceeded model_context_window_exceeded string_above_max_length
        context_limit exceed_context_size_error contextwindowexceedederror
    """,
    Detail.MODEL_UNAVAILABLE: """
        model_not_found model_not_supported model_not_available unsupported_model
        modelnotfounderror invalid_model unsupported_api_for_model deploymentnotfound
        key_model_access_denied
    """,
    Detail.BUDGET: """
        error_max_budget_usd error_max_turns budget_exhausted budget_exceeded fatalturnlimitederror
        session_budget_exceeded budgetexceedederror
    """,
    Detail.NO_RESULT: """
        error_max_structured_output_retries
    """,
    Detail.SESSION_INVALID: """
        session_not_found conversation_not_found thread_not_found previous_response_not_found
    """,
    Detail.USAGE: """
        fatalinputerror fatalconfigerror fatalsandboxerror fataluntrustedworkspaceerror
    """,
}
_VAGUE_NAMES: Final = {
    Detail.AUTH: "accessdeniedexception authenticationerror permissiondeniederror",
    Detail.RATE_LIMIT: "ratelimiterror",
    Detail.OVERLOADED: "serviceunavailableerror",
    Detail.SERVER_ERROR: "server_error api_error internalservererror",
    Detail.MODEL_UNAVAILABLE: "not_found_error not_found notfounderror resourcenotfoundexception",
    Detail.NETWORK: "transport",
}


def _by_name(table: Mapping[Detail, str]) -> dict[str, Detail]:
    return {name: detail for detail, names in table.items() for name in names.split()}


_CODES: Final = _by_name(_NAMES)
# Said of many things; only where neither words nor number say more.
_VAGUE: Final = _by_name(_VAGUE_NAMES)

_STATUS: Final[Mapping[int, Detail]] = MappingProxyType(
    {
        401: Detail.AUTH,
        402: Detail.BILLING,
        403: Detail.AUTH,
        404: Detail.MODEL_UNAVAILABLE,
        407: Detail.NETWORK,
        408: Detail.NETWORK,
        413: Detail.CONTEXT_OVERFLOW,
        429: Detail.RATE_LIMIT,
        502: Detail.SERVER_ERROR,
        503: Detail.OVERLOADED,
        504: Detail.SERVER_ERROR,
        529: Detail.OVERLOADED,
    }
)

_PHRASES: Final = (
    "Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Request Time-?out|"
    "Payload Too Large|Content Too Large|Too Many Requests|Internal Server Error|Bad Gateway|"
    "Service Unavailable|Gateway Time-?out|Overloaded|<unknown status code>"
)
# A number counts as an HTTP status only where the words around it say that it is one. Numbers alone
# are everywhere: in identifiers, ports, line numbers, prices.
_STATUS_IN_TEXT: Final = re.compile(
    rf"""
    (?: \bHTTP (?: /\d(?:\.\d)? )? [ ] (?:status[ ]|error:?[ ]|code[ ])? \(?
      | (?<!exit[ ])(?<!exited[ ]with[ ]) \bstatus (?:[ _]?code)? "? [ ]?[:=]?[ ]?
      | \bstatusCode "? [:=][ ]?
      | \bAPI[ ]Error: [ ] (?:Repeated[ ])?
      | \bCAPIError: [ ] (?:[45]\d\d[ ](?=[45]\d\d))?  # Copilot's, with the number once or twice
      | \bError[ ]code: [ ]
      | \blast[ ]error: [ ]
      | \brequest[ ]rejected[ ]\(
      | \breturned[ ]error:[ ]
      | \bserver[ ]response:[ ]
      | ^ \s* "? code "? : [ ]
      | \A \W{{0,4}} (?:(?:Execution|Model[ ]call)[ ]failed:[ ]|Error:[ ])?
        (?=\d{{3}}[ ](?-i:[A-Z{{]))  # what is counted is written small
      | (?<![\w./:-]) (?=\d{{3}}[ ](?:{_PHRASES}|status[ ]code\b))
      | \bError[ ] (?=\d{{3}}:[ ])
    )
    (?P<status>[45]\d\d) (?![\w-]|[.,:]\d)
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
# A code in running text stands alone, as a heading or behind one. As part of a sentence, a path or
# a longer name it is the name of something.
_CODE_IN_TEXT: Final = re.compile(
    r"""
    (?m: (?:^|\() \W{0,3}
       | (?i: \b\w*(?:error|exception) | \b(?:authenticate|code|fail(?:ed|ure)|reason|request|status
          |type|forbidden|requests|unauthorized|\d\d\d) ) \W? (?: [:=] \ ? | \ (?:-\ )? )
    )
    (?<![\w./\\\[-])
    (?P<code>[A-Za-z]+(?:_[A-Za-z0-9]+)+)
    (?= [.!]?(?:\s|$) | [):,;] )
    (?! \s?[=(\[] | :\ (?:command\ )?not\ found )
    """,
    re.VERBOSE,
)
_NAME_IN_TEXT: Final = re.compile(
    r"(?:(?m:^)(?:\w{1,40}\.){1,8}|(?<![\w./\\-]))([A-Z][A-Za-z]+(?:Error|Exception))(?=:|\))"
)
_BARE_IN_TEXT: Final = re.compile(r"(?<![\w./\\-])(?:UNAVAILABLE|UNAUTHENTICATED)(?![\w/\\-])")
_GRPC_IN_TEXT: Final = re.compile(r"\b(?:rpc error: code = |StatusCode\.)([A-Za-z_]{1,40})\b")
# A field of JSON that was cut, of a Python dictionary or of an object as Node.js prints it.
_FIELD_IN_TEXT: Final = re.compile(
    r"(?<![\w-])(?:code|type|status|reason|__type|errorCode|errorType)['\"]?\s?[:=]\s?"
    r"['\"](?:[\w.]{1,80}#)?([A-Za-z]\w{1,80})['\"]"
)


def by_code(codes: Iterable[str]) -> Detail | None:
    """Return the failure that the first unambiguous code stands for."""
    for code in codes:
        detail = _CODES.get(code.lower())
        if detail is not None:
            return detail
    return None


def by_vague_code(codes: Iterable[str]) -> Detail | None:
    """Return the failure that the first vague code stands for."""
    for code in codes:
        detail = _VAGUE.get(code.lower())
        if detail is not None:
            return detail
    return None


def by_status(status: int | None) -> Detail | None:
    """Return the failure that an HTTP status stands for; None if it is too vague, like 400."""
    if status is None:
        return None
    return _STATUS.get(status, Detail.SERVER_ERROR if 500 <= status <= 599 else None)  # noqa: PLR2004


def status_in(message: str) -> int | None:
    """Return the last number that `message` calls an HTTP status."""
    found = [match["status"] for match in _STATUS_IN_TEXT.finditer(message)]
    return int(found[-1]) if found else None


def codes_in(message: str) -> tuple[str, ...]:
    """Return the codes that stand in the text `message` as words of their own."""
    words = (
        *_CODE_IN_TEXT.findall(message),
        *_NAME_IN_TEXT.findall(message),
        *_BARE_IN_TEXT.findall(message),
        *_GRPC_IN_TEXT.findall(message),
    )
    return _known(words)


def fields_in(message: str) -> tuple[str, ...]:
    """Return the codes that `message` holds as values of fields, JSON or not."""
    return _known(_FIELD_IN_TEXT.findall(message))


def _known(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word.lower() in _CODES or word.lower() in _VAGUE)
