"""The cases of Elixir's tests of `Registry` that have an equivalent, with their names.

As in Elixir's tests, each runs with one partition and with eight, on Elixir's side.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.elixir_case import Case, case, meanwhile, person, start, top
from tests.conformance.elixir_scenario import Child, Dynamic, Names, Server, Step, Sup

PEOPLE: Final = (person("ann"), person("bob"))


def _tree(keys: str, partitions: int, listener: str = "") -> Sup:
    """Return a registry, and children that use it."""
    return top(Names("names", keys, partitions, listener), *PEOPLE)


def _twice(keys: str, name: str, rules: str, *steps: Step | str) -> list[Case]:
    """Return a case with one partition and one with eight."""
    return [
        case(f"{keys} with {count} partitions: {name}", rules, _tree(keys, count), *steps)
        for count in (1, 8)
    ]


UNIQUE: Final = [
    *_twice(
        "unique",
        "counts the number of keys in a registry",
        "REG-05",
        "number names",
        "ann: register names hello 1",
        "ann: register names world 2",
        "number names",
    ),
    *_twice(
        "unique",
        "has unique registrations",
        "REG-02 REG-05",
        "ann: register names hello 1",
        "keys names ann",
        "values names hello ann",
        "ann: register names hello 2",
        "keys names ann",
        "values names hello ann",
        "ann: register names world 3",
        "keys names ann",
    ),
    *_twice(
        "unique",
        "has unique registrations across processes",
        "REG-02 REG-05",
        "ann: register names hello 1",
        "bob: register names hello 2",
        "keys names bob",
        "values names hello bob",
        "values names hello ann",
        "lookup names hello",
        "lookup names world",
    ),
    *_twice(
        "unique",
        "a key is free as soon as its owner has ended",
        "REG-03 REG-07",
        "ann: register names hello 1",
        meanwhile("kill ann", "bob: register names hello 2"),
        "lookup names hello",
        "keys names ann",
    ),
    *_twice(
        "unique",
        "supports match patterns",
        "REG-15 REG-05",
        "ann: register names hello 1",
        "match names hello is1",
        "match names hello is1.0",
        "match names hello is2",
        "match names hello any",
        "match names world any",
    ),
    *_twice(
        "unique",
        "supports guard conditions",
        "REG-15",
        "ann: register names hello 2",
        "match names hello over1",
        "match names hello over2",
    ),
    *_twice(
        "unique",
        "unregister_match supports patterns",
        "REG-15",
        "ann: register names hello 1",
        "ann: unregister_where names hello is2",
        "ann: unregister_where names hello is1.0",
        "bob: unregister_where names hello is1",
        "ann: unregister_where names hello is1",
        "lookup names hello",
    ),
    *_twice(
        "unique",
        "unregister_match supports guards",
        "REG-15",
        "ann: register names hello 1",
        "ann: unregister_where names hello over1",
        "ann: unregister_where names hello over0",
    ),
    *_twice(
        "unique",
        "compares using ===",
        "REG-05",
        "ann: register names 1.0 1",
        "ann: register names 1 2",
        "keys names ann",
        "bob: register names 1 3",
        "lookup names 1",
        "lookup names 1.0",
    ),
    *_twice(
        "unique",
        "updates current process value",
        "REG-08",
        "ann: update names hello",
        "bob: register names hello 1",
        "ann: update names hello",
        "ann: register names world 1",
        "lookup names world",
        "ann: update names world",
        "lookup names world",
    ),
    *_twice(
        "unique",
        "dispatches to a single key",
        "REG-09",
        "ann: dispatch names hello hi",
        "bob: register names hello 1",
        "ann: dispatch names hello hi",
    ),
    *_twice(
        "unique",
        "unregisters process by key",
        "REG-06",
        "ann: unregister names hello",
        "ann: register names hello 1",
        "ann: register names world 2",
        "bob: unregister names hello",
        "ann: unregister names hello",
        "keys names ann",
        "ann: unregister names world",
        "keys names ann",
    ),
    *_twice(
        "unique",
        "clean up on process crash",
        "REG-07",
        "ann: register names hello 1",
        "bob: register names world 2",
        "kill ann",
        "die bob boom",
        "number names",
    ),
    *_twice(
        "unique",
        "select all",
        "REG-15",
        "select names any",
        "ann: register names hello 1",
        "bob: register names world 2",
        "select names any",
        "select names is2",
        "select names is2.0",
        "select names over1",
        "select names over2",
    ),
    *_twice(
        "unique",
        "meta belongs to nobody",
        "REG-11",
        "meta names a",
        "ann: put_meta names a 1",
        "meta names a",
        "kill ann",
        "meta names a",
        "put_meta names a 2",
        "meta names a",
        "delete_meta names a",
        "meta names a",
        "delete_meta names a",
    ),
]

DUPLICATE: Final = [
    *_twice(
        "duplicate",
        "counts the number of keys in a registry",
        "REG-05",
        "number names",
        "ann: register names hello 1",
        "ann: register names hello 1",
        "number names",
    ),
    *_twice(
        "duplicate",
        "has duplicate registrations",
        "REG-04 REG-05",
        "ann: register names hello 1",
        "keys names ann",
        "values names hello ann",
        "ann: register names hello 1",
        "keys names ann",
        "values names hello ann",
        "ann: register names world 2",
        "keys names ann",
    ),
    *_twice(
        "duplicate",
        "has duplicate registrations across processes",
        "REG-04 REG-05",
        "ann: register names hello 1",
        "keys names bob",
        "keys names ann",
        "bob: register names hello 2",
        "values names hello ann",
        "values names hello bob",
        "lookup names hello",
    ),
    *_twice(
        "duplicate",
        "compares using matches",
        "REG-05",
        "ann: register names 1.0 1",
        "ann: register names 1 2",
        "keys names ann",
        "lookup names 1",
    ),
    *_twice(
        "duplicate",
        "unregisters by key",
        "REG-06",
        "ann: register names hello 1",
        "ann: register names hello 2",
        "ann: register names world 3",
        "bob: register names hello 4",
        "ann: unregister names hello",
        "keys names ann",
        "ann: unregister names world",
        "keys names ann",
        "ann: unregister names world",
    ),
    *_twice(
        "duplicate",
        "supports match patterns and guards",
        "REG-15",
        "ann: register names hello 1",
        "bob: register names hello 2",
        "match names hello is1",
        "match names hello is2.0",
        "match names hello over0",
        "match names hello over1",
        "match names hello any",
    ),
    *_twice(
        "duplicate",
        "unregister_match supports patterns and guards",
        "REG-15",
        "ann: register names hello 1",
        "ann: register names hello 2",
        "bob: register names hello 2",
        "ann: unregister_where names hello is2",
        "ann: register names hello 3",
        "ann: unregister_where names hello over2",
        "ann: unregister_where names hello any",
    ),
    *_twice(
        "duplicate",
        "select all",
        "REG-15",
        "ann: register names hello 1",
        "ann: register names hello 1",
        "bob: register names world 2",
        "select names any",
        "select names is1",
    ),
    *_twice(
        "duplicate",
        "raises if attempt to be used on via",
        "REG-10",
        "call names/hello",
        "whereis names/hello",
    ),
    *_twice(
        "duplicate",
        "update_value is not supported",
        "REG-08",
        "ann: register names hello 1",
        "ann: update names hello",
    ),
    *_twice(
        "duplicate",
        "clean up on process crash",
        "REG-07",
        "ann: register names hello 1",
        "ann: register names hello 2",
        "bob: register names hello 3",
        "kill ann",
        "die bob normal",
    ),
    case(
        "duplicate with 1 partitions: dispatches to multiple keys in serial",
        "REG-09",
        _tree("duplicate", 1),
        "ann: dispatch names hello hi",
        "ann: register names hello 1",
        "bob: register names hello 2",
        "bob: register names world 3",
        "ann: dispatch names hello hi",
        "bob: dispatch names world ho",
    ),
]

LISTENING: Final = [
    case(
        f"{keys} with {count} partitions: allows listeners",
        "REG-12",
        top(Names("names", keys, count, "eve"), *PEOPLE, person("eve")),
        "ann: register names hello 1",
        "eve: register names world 2",
        "eve: unregister names world",
        "ann: register names hello 3",
        "kill ann",
    )
    for keys in ("unique", "duplicate")
    for count in (1, 8)
]

LINKED: Final = [
    case(
        f"{keys} with 1 partitions: links and unlinks on register/unregister",
        "REG-13 REG-14",
        _tree(keys, 1),
        "ann: register names hello 1",
        "ann: register names world 2",
        "bob: register names bob 3",
        "ann: unregister names hello",
        "bob: unregister names bob",
        "kill names",
        "which top",
    )
    for keys in ("unique", "duplicate")
]

NAMED: Final = [
    case(
        "unique with 1 partitions: via callbacks",
        "REG-10",
        top(Names("names"), Dynamic("dyn")),
        "call names/hello",
        "cast names/hello nobody",
        "whereis names/hello",
        *start("dyn", Server("one", "names/hello")),
        "call names/hello",
        "cast names/hello hi",
        "call names/hello",
        "whereis names/hello",
        *start("dyn", Server("two", "names/hello"), Child("three", registers="names/hello")),
        "kill one",
        "call names/hello",
        "terminate dyn one",
        "call names/hello",
        "lookup names hello",
    ),
    case(
        "unique with 1 partitions: a name is given before the start is over",
        "REG-10 REG-03",
        top(Names("names"), Dynamic("dyn")),
        *start("dyn", Child("a", registers="names/hello", restart="transient")),
        *start("dyn", Child("b", registers="names/hello"), Child("c", registers="names/world")),
        "die a boom",
        "whereis names/hello",
        "die a normal",
        *start("dyn", Child("b", registers="names/hello")),
    ),
    case(
        "raises on unknown registry name",
        "REG-16",
        top(*PEOPLE),
        *start("top", Names("names")),
        "ann: register names hello 1",
        "terminate top names",
        "bob: register names hello 1",
        "lookup names hello",
        "restart top names",
        "lookup names hello",
        "bob: register names hello 1",
    ),
]

REGISTRY: Final[list[Case]] = [*UNIQUE, *DUPLICATE, *LISTENING, *LINKED, *NAMED]
