from __future__ import annotations

import asyncio
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.sandbox.output import KeptLines, Output
from otpy_agents.store.redaction import Redaction


class Heard:
    """An output and what its listeners heard."""

    def __init__(self, limit: int = 1000, secrets: Redaction | None = None) -> None:
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.output = Output(
            limit=limit,
            secrets=secrets or Redaction({}),
            on_stdout=self.stdout.append,
            on_stderr=self.stderr.append,
        )


async def test_both_streams_are_heard_and_kept_apart() -> None:
    """Each line goes to its listener; an unfinished last line is one too."""
    heard = Heard()
    heard.output.take_stdout(b"one\ntw")
    heard.output.take_stderr(b"bad\n")
    heard.output.take_stdout(b"o\nthree")
    assert (heard.stdout, heard.stderr) == (["one", "two"], ["bad"])
    heard.output.finish()
    heard.output.finish()
    assert heard.stdout == ["one", "two", "three"]
    assert (heard.output.stdout, heard.output.stderr) == ("one\ntwo\nthree\n", "bad\n")
    assert (heard.output.seen, heard.output.cut) == (17, 0)


async def test_beyond_the_limit_the_middle_is_cut_and_counted() -> None:
    """Results and errors stand at the end, so the end is kept; listeners hear everything."""
    heard = Heard(limit=100)
    for number in range(100):
        heard.output.take_stdout(f"line {number:04}\n".encode())
    heard.output.take_stderr(b"the end\n")
    kept = heard.output.stdout.splitlines()
    assert kept[:5] == [f"line {number:04}" for number in range(5)]
    assert kept[5] == f"[{heard.output.cut} bytes were cut here]"
    assert kept[6:] == [f"line {number:04}" for number in range(96, 100)]
    assert heard.output.cut == 91 * 10
    assert heard.output.stderr == "the end\n"
    assert len(heard.stdout) == 100


async def test_a_line_without_an_end_takes_no_more_memory_than_half_the_limit() -> None:
    """A line that is too long is cut, and the cut is counted; the next line is whole."""
    heard = Heard(limit=100)
    for _ in range(100):
        heard.output.take_stdout(b"x" * 100)
    heard.output.take_stdout(b"\nnext\n")
    assert heard.stdout == ["x" * 49, "next"]
    assert heard.output.cut == 10_000 - 49


def test_short_lines_take_the_memory_of_their_bytes() -> None:
    """A program that writes `y` for ever fills the limit, and not a hundred times that."""
    tracemalloc.start()
    kept = KeptLines(50_000)
    for _ in range(50_000):
        kept.add(0, "y")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 150_000
    assert (kept.cuts, len(kept.text(0))) == (
        [50_000, 0],
        50_000 + len("[50000 bytes were cut here]\n"),
    )


def test_lines_of_both_streams_can_be_had_in_their_order() -> None:
    """Errors are beside the lines that they are about; the middle of both is cut."""
    kept = KeptLines(12)
    for number, stream in enumerate((0, 1, 0, 1, 1, 0)):
        kept.add(stream, f"{number}.")
    assert kept.text(0, 1) == "0.\n1.\n[6 bytes were cut here]\n4.\n5.\n"
    assert kept.text(1) == "1.\n[3 bytes were cut here]\n4.\n"


async def test_exactly_what_is_kept_is_not_counted_as_cut() -> None:
    """Bytes seen are bytes kept, their line ends, and bytes cut."""
    heard = Heard(limit=10_000)
    for length in (4000, 7000, 4999, 1, 0, 3000):
        heard.output.take_stdout(b"y" * length + b"\n")
    kept = [line for line in heard.output.stdout.splitlines() if "cut here" not in line]
    # The line that was too long lost its tail, and a line that is dropped takes its end along.
    assert sum(len(line) + 1 for line in kept) + heard.output.cut == heard.output.seen


async def test_a_secret_is_replaced_before_anybody_hears_it() -> None:
    """This holds for heard lines and for kept ones, also if it comes in pieces (G-04)."""
    heard = Heard(secrets=Redaction({"API_KEY": "sesame"}))
    for piece in (b"open ses", b"ame\n", b"s", b"esame now\n"):
        heard.output.take_stdout(piece)
    heard.output.take_stderr(b"sesame")
    heard.output.finish()
    assert heard.stdout == ["open [API_KEY]", "[API_KEY] now"]
    assert heard.output.stderr == "[API_KEY]\n"


async def test_of_a_secret_across_the_cut_of_a_line_nothing_is_left() -> None:
    """Wherever a long line is cut, no part of a secret stands at its end."""
    secret = "0123456789abcdef"
    for at in range(30, 55):
        heard = Heard(limit=100, secrets=Redaction({"API_KEY": secret}))
        heard.output.take_stdout(b"-" * at + secret.encode() + b"-" * 500 + b"\n")
        (line,) = heard.stdout
        assert "0" not in line
        assert line.startswith("-" * min(at, 49))


async def test_a_listener_that_raises_is_told_on_and_reading_goes_on() -> None:
    """The exception handler of the loop gets the error; the output is kept all the same."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(str(context["exception"]))
    )

    def refuse(line: str) -> None:
        raise ValueError(line)

    output = Output(limit=100, secrets=Redaction({}), on_stdout=refuse, on_stderr=refuse)
    output.take_stdout(b"a\nb\n")
    assert (told, output.stdout) == (["a", "b"], "a\nb\n")


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 200))
def test_whatever_is_written_the_limit_holds(chunks: list[bytes], limit: int) -> None:
    """Kept text stays within the limit, and how it is cut into chunks does not matter."""

    async def play(pieces: list[bytes]) -> tuple[list[str], str, int]:
        heard = Heard(limit=limit)
        for piece in pieces:
            heard.output.take_stdout(piece)
        heard.output.finish()
        return heard.stdout, heard.output.stdout, heard.output.cut

    lines, kept, cut = asyncio.run(play(chunks))
    assert (lines, kept, cut) == asyncio.run(play([b"".join(chunks)]))
    marks = [line for line in kept.splitlines() if line.endswith("bytes were cut here]")]
    room = sum(len(line.encode()) + 1 for line in marks)
    assert len(kept.encode()) - room <= limit
    assert (cut > 0) == bool(marks)
