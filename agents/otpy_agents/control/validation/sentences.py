"""Turns a criterion that is a sentence into checks, by a table of rules.

A rule reads a whole sentence or none of it: a word more, such as "unless", and no rule reads it.
What no rule reads is uncertain. Nothing here guesses what was meant (CTL-38).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import regex
from attrs import frozen

from otpy_agents.control.report import MatchQuality
from otpy_agents.control.validation.checks import (
    Check,
    CommandEnds,
    CommandLines,
    FileHas,
    FileIsEmpty,
    FileIsJson,
    JsonHas,
    LineCount,
    OperatorPattern,
    PathIs,
    SignOf,
    SuitePasses,
    TreeHas,
    apart,
)

__all__ = ["SENTENCE_RULES", "SentenceReading", "SentenceRule", "read_sentence", "rules_table"]

# No criterion is a page; the rules need not be safe against one.
_SENTENCE_LIMIT: Final = 1000

# Pieces of patterns. A space stands for any white space.
_QUOTED: Final = (
    r"""(?:`[^`]+`|"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|‘[^’]+’|'(?:[^']|(?<=\w)'(?=\w))+')"""
)
_KNOWN: Final = (
    r"(?:README|CHANGELOG|LICENSE|CONTRIBUTING|AUTHORS|NOTICE|Makefile|Dockerfile|Justfile)"
)
# With an ending, with a slash, or known without.
_PATH: Final = (
    rf"(?:{_QUOTED}|/?[\w.@+~-]*\w/[\w.@+~/-]*|\.{{0,2}}/[\w.@+~/-]+"
    rf"|[\w@+~-]*(?:\.[\w@+~-]+)+|{_KNOWN})"
)
_NOUN: Final = (
    r"(?:(?:new |source |test |text |config(?:uration)? |json |markdown |python )*"
    r"(?:file|script|module|document|page)(?: named| called| at)? )"
)
_PIECES: Final = {
    "a": r"(?:(?:the|a|an) )?",
    "file": (
        rf"(?:(?:the|a|an) )?(?P<noun>{_NOUN})?(?P<path>(?(noun)(?:{_QUOTED}"
        rf"|[\w.@+~/-]*\w)|{_PATH}))"
    ),
    "folder": (
        rf"(?:(?:the|a|an) )?(?:new )?(?:folder|directory)(?: named| called"
        rf"| at)? (?P<path>{_QUOTED}|[\w.@+~/-]+)"
    ),
    "paths": rf"(?P<paths>{_PATH}(?:, {_PATH})*,? and {_PATH})",
    "in_place": rf"(?P<under>{_QUOTED}|[\w.@+~/-]*[\w/])",
    "text": rf"(?P<text>{_QUOTED})",
    "modal": r"(?:(?:must|should|shall|will|has to|have to|needs? to) )?",
    "not": (
        r"(?:does not|do not|doesn't|doesn’t|don't|don’t|must not|should not"
        r"|shall not|may not|must never|never|no longer)"
    ),
    "are": (
        r"(?:is|are|must be|should be|shall be|has to be|have to be|gets?"
        r"|was|were|has been|have been)"
    ),
    "name": r"[`'\"]?(?P<name>[^\W\d][\w.]*)(?:\(\))?[`'\"]?",
    "kind": (
        r"(?P<kind>(?:async )?function|method|class|struct|interface|enum"
        r"|trait|type|constant|variable|def)"
    ),
    "number": r"(?P<number>\d[\d,]*)",
    "command": r"(?:running |the command |command )?`(?P<command>[^`]+)`",
}

_MODIFIERS: Final = (
    r"(?:(?:export|default|public|private|protected|static|final|abstract|async|pub(?:\([\w:]+\))?"
    r"|const|let|var|readonly)[ \t]+)*"
)
_DEFINITIONS: Final = {
    "function": (
        rf"^[ \t]*{_MODIFIERS}(?:def|function\*?|func(?:[ \t]*\([^)\n]*\))?|fn|fun|sub)[ \t]+NAME\b"
        rf"|^[ \t]*{_MODIFIERS}NAME\b[^=\n(]*=[^=\n]*(?:=>|\bfunction\b|\blambda\b)"
        r"|^[ \t]*(?:[\w<>\[\],*&:]+[ \t]+)*NAME[ \t]*\([^;\n]*\)[^;\n]*\{"
    ),
    "class": (
        rf"^[ \t]*{_MODIFIERS}(?:data[ \t]+)?(?:class|struct|interface|enum|trait|type|record)"
        r"[ \t]+NAME\b"
    ),
    "variable": rf"^[ \t]*{_MODIFIERS}NAME\b[^=\n(]*=(?!=)",
}
_KINDS: Final = {"constant": "variable", "variable": "variable"} | dict.fromkeys(
    ("function", "async function", "method", "def"), "function"
)

# Words of "README mentions the way to install it" that say nothing.
_EMPTY_WORDS: Final = frozenset(
    {
        *("a", "an", "and", "the", "that", "this", "these", "those", "its", "it", "is", "are"),
        *("how", "to", "what", "why", "when", "where", "which", "way", "of", "for", "in", "on"),
        *("with", "at", "by", "be", "as", "all", "each", "every", "new", "can"),
    }
)
_WORD: Final = re.compile(r"\w+(?:[-.'’]\w+)*")
# A sentence with one of these may mean the opposite of what its quotation says.
_NEGATION: Final = re.compile(
    r"\b(?:not|no|none|never|without|neither|nor|cannot|instead|nicht|kein\w*"
    r"|ohne|nie|pas|sans|sin)"
    r"\b|n['’]t\b|\bremove|\bdelete|\brename|\breplace",
    re.IGNORECASE,
)

# What is a name in code and no word of a language: a file, a path, `getUser`, `MAX_SIZE`.
_CODE_NAME: Final = re.compile(
    r"(?<![\w./-])(?:[\w-]*/[\w./-]*\w|\.?[A-Za-z][\w-]*\.[a-z]{1,5}(?:\.[a-z]+)?|\.[a-z][\w.-]+"
    r"|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z]+[a-z0-9]+){2,}|[A-Za-z]+(?:_[A-Za-z0-9]+)+)(?![\w/-])"
)

_Made = tuple[Check, ...]
_Match = re.Match[str]


@frozen
class SentenceRule:
    """How sentences of one form are checked.

    Attributes:
        name: What it checks.
        quality: How sure it is; one that is only `LOW` sure shows signs and decides nothing.
        form: Pattern of the whole sentence, with `{pieces}`.
        example: A sentence that it reads.
        make: Makes the checks of what the pattern matched; none if it does not read it after all.
    """

    name: str
    quality: MatchQuality
    form: str
    example: str
    make: Callable[[_Match], _Made]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The form, with its pieces put in."""
        form = self.form
        for name, piece in _PIECES.items():
            form = form.replace(f"{{{name}}}", piece)
        return re.compile(form.replace(" ", r"\s+"), re.IGNORECASE)


@frozen
class SentenceReading:
    """A sentence as rules read it.

    Attributes:
        rule: Names of the rules.
        quality: How sure the least sure of them is.
        checks: What must hold, all of it.
    """

    rule: str
    quality: MatchQuality
    checks: tuple[Check, ...]


def _bare(text: str) -> str:
    """Return a piece without its quotation marks."""
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text


def _path(match: _Match) -> str:
    return _bare(match["path"])


def _is_there(path: str) -> PathIs:
    name = _bare(path)
    return PathIs(name, kind="folder" if name.endswith("/") else None)


def _exactly(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def _has(path: str, text: str, *, wanted: bool = True) -> _Made:
    return (FileHas(path, _exactly(text), f"the text {text!r}", wanted),)


def _has_only(match: _Match) -> _Made:
    text = _bare(match["text"])
    pattern = re.compile(rf"\A\s*{re.escape(text.strip())}\s*\Z")
    return (FileHas(_path(match), pattern, f"exactly the text {text!r}"),)


def _matches(match: _Match) -> _Made:
    source = match["regex"] or _bare(match["text"])
    try:
        pattern = OperatorPattern(source)
    except regex.error:
        return ()
    return (FileHas(_path(match), pattern, f"a match of /{source}/"),)


def _words(path: str, said: str) -> _Made:
    words = [word for word in _WORD.findall(said) if word.casefold() not in _EMPTY_WORDS]
    return tuple(
        FileHas(path, re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE), f"the word {word!r}")
        for word in dict.fromkeys(words)
    )


def _definition(match: _Match) -> tuple[re.Pattern[str], str]:
    kind, name = match["kind"].casefold(), match["name"].rpartition(".")[2]
    form = _DEFINITIONS[_KINDS.get(kind, "class")]
    pattern = re.compile(form.replace("NAME", re.escape(name)), re.MULTILINE)
    return pattern, f"a definition of the {kind} {name}"


def _none_left(match: _Match) -> _Made:
    text = _bare(match["text"])
    if text == match["text"]:
        # "TODOs" are "TODO", more than once.
        text = re.sub(r"(?<=[A-Z])s\Z", "", text)
        if not text.isupper():
            return ()
    under = _bare(match["under"]) if match["under"] else "."
    return (TreeHas(apart(text), f"the text {text!r}", under, wanted=False),)


def _json_value(match: _Match) -> _Made:
    value: Any
    try:
        value = json.loads(match["value"])
    except ValueError:
        if _bare(match["value"]) == match["value"]:
            return ()
        value = _bare(match["value"])
    return (JsonHas(_path(match), _bare(match["json_path"]), value),)


def _signs(match: _Match) -> _Made:
    sentence = match.string
    said = re.sub(_QUOTED, " ", sentence)
    if _NEGATION.search(said):
        return ()
    quoted = [_bare(part) for part in re.findall(_QUOTED, sentence)]
    return tuple(map(SignOf, dict.fromkeys([*quoted, *_CODE_NAME.findall(said)])))


def _defined_somewhere(match: _Match) -> _Made:
    name = match["name"]
    if _CODE_NAME.fullmatch(name) is None:
        return ()
    forms = "|".join(_DEFINITIONS.values()).replace("NAME", re.escape(name))
    return (TreeHas(re.compile(forms, re.MULTILINE), f"a definition of {name}"),)


def _line_range(match: _Match) -> _Made:
    command = match["command"] or match["shell"]
    # What counts its lines writes one, with the number.
    if _COUNTS.search(command):
        return ()
    number, bound = int(match["number"].replace(",", "")), (match["bound"] or "").casefold()
    least = 0 if bound in _AT_MOST else number
    most = None if bound in _AT_LEAST else number
    return (CommandLines(command, least, most),)


_COUNTS: Final = re.compile(r"\bwc\b|\s-[a-zA-Z]*c\b|--count\b")
_AT_LEAST: Final = frozenset({"at least"})
_AT_MOST: Final = frozenset({"at most", "no more than"})


_EXACT, _HIGH, _MEDIUM, _LOW = MatchQuality
_THERE: Final = r"(?:{modal}exists?|{are} (?:there|present|available|in place))"
_MADE: Final = r"{are} (?:created|added|written|generated|produced|made)"
_GONE: Final = r"(?:{not} exists?|{are} (?:removed|deleted|gone|absent)|is not (?:there|present))"
_JSON_PATH: Final = rf"(?P<json_path>{_QUOTED}|\$?[\w.\[\]-]+)"
_JSON_VALUE: Final = rf"(?P<value>{_QUOTED}|true|false|null|-?\d+(?:\.\d+)?)"
_JSON_FILE: Final = r"(?P<path>[`'\"]?[\w.@+~/-]+\.json[`'\"]?)"

SENTENCE_RULES: Final[tuple[SentenceRule, ...]] = (
    SentenceRule(
        "a folder is there",
        _EXACT,
        rf"{{folder}} (?:{_THERE}|{_MADE})",
        "the folder src/parser exists",
        lambda match: (PathIs(_path(match), kind="folder"),),
    ),
    SentenceRule(
        "a folder is not there",
        _EXACT,
        rf"{{folder}} {_GONE}",
        "the directory build no longer exists",
        lambda match: (PathIs(_path(match), wanted=False),),
    ),
    SentenceRule(
        "a file is not there",
        _EXACT,
        rf"{{file}} {_GONE}",
        "old.py does not exist",
        lambda match: (PathIs(_path(match), wanted=False),),
    ),
    SentenceRule(
        "a file is there",
        _EXACT,
        rf"(?:{{file}} {_THERE}|there (?:is|must be|should be|exists) (?=a )(?:a"
        rf"|an) {_NOUN}(?P<named>{_PATH}))",
        "file hello.txt exists",
        lambda match: (_is_there(match["path"] or match["named"]),),
    ),
    SentenceRule(
        "files are there",
        _EXACT,
        rf"(?:(?:all )?(?:the )?files )?{{paths}} (?:all )?(?:{_THERE}|{_MADE})",
        "a.py, b.py and docs/c.md exist",
        lambda match: tuple(map(_is_there, re.findall(_PATH, match["paths"]))),
    ),
    SentenceRule(
        "a file was made",
        _HIGH,
        rf"(?:{{file}} {_MADE}|creates? {{a}}{_NOUN}?(?P<named>{_PATH}))",
        "a script run.sh is created",
        lambda match: (_is_there(match["path"] or match["named"]),),
    ),
    SentenceRule(
        "a file is not empty",
        _EXACT,
        r"{file} (?:(?:is|was) not|isn't|isn’t|must not be|should not be|shall not be) empty",
        "out.log is not empty",
        lambda match: (FileIsEmpty(_path(match), wanted=False),),
    ),
    SentenceRule(
        "a file is empty",
        _EXACT,
        r"{file} {are} empty",
        "out.log is empty",
        lambda match: (FileIsEmpty(_path(match)),),
    ),
    SentenceRule(
        "a file has so many lines",
        _EXACT,
        r"{file} (?:{modal}(?:has|have|contains?)|{are})(?: exactly)? {number}"
        r" lines?(?: long| of text)?",
        "poem.txt has exactly 3 lines",
        lambda match: (LineCount(_path(match), int(match["number"].replace(",", ""))),),
    ),
    SentenceRule(
        "a file is JSON",
        _EXACT,
        r"{file} (?:{are}|{modal}(?:contains?|holds?|has)) (?:a )?(?:valid |well-formed"
        r" |parseable )JSON(?: file| document)?",
        "data.json is valid JSON",
        lambda match: (FileIsJson(_path(match)),),
    ),
    SentenceRule(
        "a value in a JSON file",
        _EXACT,
        rf"(?:{_JSON_PATH} (?:in|of) {_JSON_FILE} (?:{{are}}|{{modal}}equals?)(?:"
        rf" set to| equal to)? {_JSON_VALUE})",
        "`scripts.test` in package.json is 'jest'",
        _json_value,
    ),
    SentenceRule(
        "a file has nothing but a text",
        _HIGH,
        r"{file} {modal}(?:(?:contains?|has|holds?|have) (?:exactly|only|just)"
        r"|consists? of)(?: the)?(?: text| string| line| word)? {text}",
        "hello.txt contains exactly 'Hello'",
        _has_only,
    ),
    SentenceRule(
        "a file does not have a text",
        _EXACT,
        r"{file} {not} (?:contain|include|have|mention|use)s?(?: the| any)?(?:"
        r" text| string| line| word| phrase)? {text}",
        "config.py does not contain 'password'",
        lambda match: _has(_path(match), _bare(match["text"]), wanted=False),
    ),
    SentenceRule(
        "a file has a text",
        _EXACT,
        r"{file} {modal}(?:contains?|includes?|has|have|holds?)(?: the| a| an)?(?:"
        r" text| string| line| word| phrase| heading| section)? {text}",
        "hello.txt contains 'Hello, world'",
        lambda match: _has(_path(match), _bare(match["text"])),
    ),
    SentenceRule(
        "a file matches a pattern",
        _EXACT,
        r"{file} {modal}match(?:es)?(?: the| a)?(?: regex| regular expression"
        r"| pattern)? (?:/(?P<regex>.+)/|{text})",
        "version.txt matches /^\\d+\\.\\d+$/",
        _matches,
    ),
    SentenceRule(
        "something is defined in a file",
        _HIGH,
        r"{a}{kind} {name} (?:(?:exists|{are} (?:defined|implemented|added|present)) )?in {file}",
        "function add in calculator.py",
        lambda match: (FileHas(_path(match), *_definition(match)),),
    ),
    SentenceRule(
        "a file defines something",
        _HIGH,
        r"{file} {modal}(?:defines?|has|have|contains?|exports?|implements?|provides?)"
        r" {a}{kind}(?: named| called)? {name}",
        "calculator.py defines the class Adder",
        lambda match: (FileHas(_path(match), *_definition(match)),),
    ),
    SentenceRule(
        "something is defined",
        _MEDIUM,
        r"{a}{kind} {name} (?:exists|{are} (?:defined|implemented|added|present))",
        "the class Parser is defined",
        lambda match: (TreeHas(*_definition(match)),),
    ),
    SentenceRule(
        "a name in code is defined",
        _MEDIUM,
        r"{a}{name}(?: {kind})? (?:exists|(?:{are} )?(?:defined|implemented|created|added))",
        "AuthService created",
        _defined_somewhere,
    ),
    SentenceRule(
        "nothing of it is left",
        _HIGH,
        r"(?:there (?:{are}|remain|exist)s? )?no (?:more |remaining |leftover )?(?P<text>"
        + _QUOTED
        + r"|[A-Z]{3,}s?)"
        r"(?: comments?| markers?| statements?| calls?| notes?)?(?: (?:{are}"
        r"|left|remains?|remaining|anywhere|exists?|over))*"
        r"(?: (?:in|under|below|within|inside) (?:the (?:code|code base|codebase"
        r"|project|repository|source)|(?:the )?(?:folder |directory |file )?{in_place}))?",
        "no TODO left in src/",
        _none_left,
    ),
    SentenceRule(
        "the tests pass",
        _HIGH,
        r"(?:all )?(?:of )?(?:the )?(?:(?:unit|integration|existing|new|automated"
        r"|project's) )*tests?(?: suite)?"
        r" {modal}(?:pass(?:es)?|succeeds?|(?:is|are|be|runs?|stays?) green)(?: successfully)?",
        "all tests pass",
        lambda _: (SuitePasses(),),
    ),
    SentenceRule(
        "a command ends with a code",
        _EXACT,
        r"{command} {modal}(?:exits?|ends?|returns?|finish(?:es)?)(?: with)?(?:"
        r" an?)?(?: exit)?(?: code| status)?(?: of)? (?P<code>\d{1,3})",
        "`./run.sh --check` exits with code 2",
        lambda match: (CommandEnds(match["command"], int(match["code"])),),
    ),
    SentenceRule(
        "a command prints a text",
        _HIGH,
        r"{command} {modal}(?:prints?|outputs?|writes?|shows?|says?) {text}",
        "`python hello.py` prints 'Hello'",
        lambda match: (CommandEnds(match["command"], prints=_bare(match["text"])),),
    ),
    SentenceRule(
        "a command writes so many lines",
        _HIGH,
        r"(?:{command}|(?P<shell>(?:grep|egrep|rg) .+?)) {modal}(?:returns?|prints?"
        r"|outputs?|shows?|finds?)"
        r" (?:(?P<bound>exactly|at least|at most|no more than) )?{number} (?:lines?"
        r"|matche?s?|results?)"
        r"(?: \([^()]*\))?",
        "grep -n 'useEffect' App.tsx returns at least 2 lines",
        _line_range,
    ),
    SentenceRule(
        "a command succeeds",
        _HIGH,
        r"{command} {modal}(?:pass(?:es)?|succeeds?|works?|runs? (?:successfully|cleanly|through)"
        r"|(?:runs?|exits?|ends?|finish(?:es)?) without (?:an? )?(?:errors?|failures?))",
        "`make lint` passes",
        lambda match: (CommandEnds(match["command"]),),
    ),
    SentenceRule(
        "a file mentions a text",
        _HIGH,
        r"{file} {modal}(?:mentions?|names?|lists?|quotes?|refers? to|uses?|imports?"
        r"|calls?) {text}",
        "README mentions `make test`",
        lambda match: (
            FileHas(
                _path(match),
                re.compile(re.escape(_bare(match["text"])), re.IGNORECASE),
                f"the text {_bare(match['text'])!r}, in either case",
            ),
        ),
    ),
    SentenceRule(
        "a file mentions words",
        _MEDIUM,
        r"{file} {modal}(?:mentions?|names?|refers? to) (?P<said>[^`'\"“”„«»]+)",
        "README mentions the installation",
        lambda match: _words(_path(match), match["said"]),
    ),
    SentenceRule(
        "a file speaks of words",
        _LOW,
        r"{file} {modal}(?:describes?|documents?|explains?|covers?|contains?"
        r"|includes?|has|have|lists?|shows?)"
        r"(?! no\b)(?! not\b) (?P<said>[^`'\"“”„«»]+)",
        "README explains how to install it",
        lambda match: _words(_path(match), match["said"]),
    ),
    SentenceRule(
        "there are signs of what it names",
        _LOW,
        r".*",
        "the parser supports `--strict`",
        _signs,
    ),
)
"""How sentences are checked; the first rule that reads a sentence counts."""


_PATTERNS: Final = tuple((rule, rule.pattern) for rule in SENTENCE_RULES)
_BULLET: Final = re.compile(r"\A(?:[-*•]|\d+[.)])\s+(?:\[[ xX]?\]\s*)?")
_JOIN: Final = re.compile(
    rf"({_QUOTED})|,?\s+and\s+(?:also\s+)?|;\s+|,\s+but\s+|,\s+(?=['\"`“„«‘])"
)


def read_sentence(sentence: str) -> SentenceReading | None:
    """Return the checks for a sentence, or None if no rule reads it.

    A sentence that no single rule reads may be several in a row: "a.py exists and contains 'x'".
    """
    plain = _BULLET.sub("", sentence.strip())
    plain = re.sub(r"[.!]+\Z", "", plain).strip()
    if len(plain) > _SENTENCE_LIMIT:
        return None
    return _read_sure(plain) or _read_several(plain) or _read(plain, sure=False)


def _read_sure(sentence: str) -> SentenceReading | None:
    return _read(sentence, sure=True)


def _read(sentence: str, *, sure: bool) -> SentenceReading | None:
    for rule, pattern in _PATTERNS:
        if (rule.quality is _LOW) is sure:
            continue
        match = pattern.fullmatch(sentence)
        checks = rule.make(match) if match is not None else ()
        if checks:
            return SentenceReading(rule.name, rule.quality, checks)
    return None


def _read_several(sentence: str) -> SentenceReading | None:
    parts = _parts(sentence)
    if len(parts) == 1:
        return None
    readings: list[SentenceReading] = []
    subject = predicate = ""
    for part in parts:
        # What stands in front of it goes on: "and contains 'x'", "and 'y'".
        for whole in (part, f"{subject} {part}", f"{predicate} {part}"):
            reading = _read_sure(whole.strip())
            if reading is not None:
                readings.append(reading)
                subject, predicate = _openings(whole.strip())
                break
        else:
            return None
    worst = max((reading.quality for reading in readings), key=list(MatchQuality).index)
    names = " and ".join(dict.fromkeys(reading.rule for reading in readings))
    return SentenceReading(
        names, worst, tuple(check for reading in readings for check in reading.checks)
    )


def _parts(sentence: str) -> list[str]:
    """Split at what joins sentences, outside of quotations."""
    parts, begin = list[str](), 0
    for match in _JOIN.finditer(sentence):
        if match[1] is None:
            parts.append(sentence[begin : match.start()])
            begin = match.end()
    return [*parts, sentence[begin:]]


def _openings(sentence: str) -> tuple[str, str]:
    """Return a sentence's subject, and all of it before its last quotation."""
    for _, pattern in _PATTERNS:
        match = pattern.fullmatch(sentence)
        if match is not None:
            pieces = match.groupdict()
            subject = sentence[: match.end("path")] if pieces.get("path") else ""
            predicate = sentence[: match.start("text")] if pieces.get("text") else ""
            return subject, predicate
    return "", ""


def rules_table() -> str:
    """Return the table of rules as lines of text: check, certainty and example."""
    rows = [("CHECK", "QUALITY", "FOR EXAMPLE")]
    rows += [(rule.name, rule.quality.value, rule.example) for rule in SENTENCE_RULES]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(
        f"{name:<{widths[0]}}  {quality:<{widths[1]}}  {example}" for name, quality, example in rows
    )
