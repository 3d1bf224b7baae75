from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy_agents.docker.frames import STDERR, STDOUT, LogFrames

pieces = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=20)), max_size=8)


def framed(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@settings(deadline=None)  # the machine may be busy
@given(pieces, st.lists(st.integers(1, 12), min_size=1, max_size=20))
def test_however_the_log_is_cut_each_stream_is_whole(
    log: list[tuple[int, bytes]], lengths: list[int]
) -> None:
    """The transport may cut headers and data anywhere."""
    sent = b"".join(framed(stream, data) for stream, data in log)
    frames, taken, heard = LogFrames(), 0, {STDOUT: b"", STDERR: b""}
    for length in lengths * (len(sent) // sum(lengths) + 1):
        for frame in frames.feed(sent[taken : taken + length]):
            assert frame.data
            heard[frame.stream] += frame.data
        taken += length
    for stream, whole in heard.items():
        assert whole == b"".join(data for of, data in log if of == stream)


def test_data_is_handed_on_before_its_frame_is_whole() -> None:
    """A frame of any size takes no memory; the engine's own messages come as standard error."""
    frames = LogFrames()
    sent = framed(STDOUT, b"x" * 1000)
    assert [frame.data for frame in frames.feed(sent[:12])] == [b"xxxx"]
    assert [frame.data for frame in frames.feed(sent[12:] + framed(3, b"oh"))] == [
        b"x" * 996,
        b"oh",
    ]
    assert [frame.stream for frame in frames.feed(framed(3, b"no"))] == [STDERR]
