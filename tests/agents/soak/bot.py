"""A worker, or agent, of a real soak: `bot.py KIND SECONDS`. It counts its lives in its folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_LINES = 3000


def say(**values: object) -> None:
    """Write a line as agents do."""
    sys.stdout.write(f"{json.dumps(values)}\n")
    sys.stdout.flush()


def life() -> int:
    """Return the number of this life, from 1."""
    lives = Path(os.environ["OTPY_WORK"]) / "lives"
    with lives.open("a", encoding="utf-8") as file:
        file.write("x")
    return lives.stat().st_size


def leave(*, deaf: bool) -> None:
    """Leave a grandchild behind, in a session of its own."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(900)"
    argv = [sys.executable, "-c", code] if deaf else ["sleep", "900"]
    subprocess.Popen(argv, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)


def main(kind: str, seconds: float) -> int:
    """Do what the kind says."""
    number = life()
    say(type="session", id=os.environ.get("OTPY_SESSION", "s-1"))
    time.sleep(seconds / 2)
    match kind:
        case "crash" if number <= 2:
            return 1
        case "die" if number <= 2:
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang" if number == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(900)
        case "chatter":
            for line in range(_LINES):
                say(type="text", text=f"{line} " + "x" * 99)
        case "leave":
            leave(deaf=False)
        case "leave-deaf":
            leave(deaf=True)
        case "hopeless":
            say(type="error", message="invalid api key", status=401)
            return 1
        case "forbidden":
            time.sleep(900)
        case _:
            pass
    time.sleep(seconds / 2)
    say(type="result", text="done")
    with Path(os.environ["SOAK_DID"]).open("a", encoding="utf-8") as file:
        file.write(f"{os.environ['OTPY_ASSIGNMENT']}\n")  # at last: nothing follows but the end
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], float(sys.argv[2])))
