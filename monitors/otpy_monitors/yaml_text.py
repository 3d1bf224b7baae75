"""Plain values out of a YAML text, with the line on which each begins."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value sits in a document, for example `("rules", 3, "name")`."""

_PLAIN: Final = {
    f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null")
}


@final
class YamlError(Exception):
    """A text that is not the YAML we read.

    Attributes:
        line: Where, from 1.
        got: The value found.
        wanted: What would have been accepted.
    """

    def __init__(self, line: int, got: str, wanted: str) -> None:
        super().__init__(f"line {line}: got {got}, wanted {wanted}")
        self.line, self.got, self.wanted = line, got, wanted


@final
class YamlText:
    """One YAML 1.2 document of mappings, lists and plain scalars.

    Refused are what would make the file mean something else than it seems to: keys that are there
    twice, keys that are not text, dates and other types of its own, anchors and aliases.

    Attributes:
        value: The document: `dict`, `list`, `str`, `int`, `float`, `bool` or `None`.
    """

    def __init__(self, text: str) -> None:
        """Read the text.

        Raises:
            YamlError: If it is not such a document.
        """
        self._lines: dict[KeyPath, int] = {}
        yaml: Any = YAML(typ="safe", pure=True)
        self._scalar = yaml.constructor.construct_object
        try:
            node: Any = yaml.compose(text)
        except YAMLError as error:
            raise _not_yaml(error) from error
        self.value: object = None if node is None else self._read(node, ())

    def line(self, path: KeyPath) -> int:
        """Return the line, from 1, on which what stands at `path` begins.

        Of what is not there, that of the nearest value around it.
        """
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _read(self, node: Any, path: KeyPath) -> object:
        line: int = node.start_mark.line + 1
        self._lines.setdefault(path, line)
        if node.anchor is not None:
            raise YamlError(line, f"the anchor {node.anchor!r}", "every value where it belongs")
        if str(node.tag) not in _PLAIN:
            raise YamlError(line, f"a value with the tag {node.tag}", "a text or a number")
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            items: list[Any] = list(node.value)
            return [self._read(item, (*path, number)) for number, item in enumerate(items)]
        try:
            return self._scalar(node)
        except (YAMLError, ValueError) as error:
            raise YamlError(line, f"{node.value!r}", "a text or a number") from error

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            line: int = key_node.start_mark.line + 1
            key = self._read(key_node, ()) if key_node.id == "scalar" else None
            if not isinstance(key, str):
                raise YamlError(line, "a key that is not text", "a text")
            if key in values:
                raise YamlError(line, f"the key {key!r} for the second time", "each key once")
            self._lines[(*path, key)] = line
            values[key] = self._read(value_node, (*path, key))
        return values


def _not_yaml(error: Any) -> YamlError:
    """Return the error for a text that the parser refuses; the mark tells the line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return YamlError(1 if mark is None else mark.line + 1, f"a mistake ({problem})", "YAML")
