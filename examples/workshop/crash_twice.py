"""Crash as the first and the second incarnation; succeed as the third."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Say why the previous incarnation ended, if there was one."""
    incarnation = int(os.environ["OTPY_INCARNATION"])
    print(os.environ.get("OTPY_LAST_EXIT", "a fresh start"), flush=True)
    if incarnation <= 2:
        print(f"incarnation {incarnation} crashes", flush=True)
        return 1
    print(f"incarnation {incarnation} succeeds", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
