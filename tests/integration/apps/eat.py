"""A program outside of Sparkpace: it takes memory until this machine has only LEFT MiB available, but MOST MiB at most, and
holds it until its standard input ends."""

import sys
import threading
import time
from pathlib import Path

BLOCK_MB = 64


def available_mb() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable:"))


def eat(left_mb: int, most_mb: int) -> None:
    held = []
    while True:
        if available_mb() > left_mb + BLOCK_MB and len(held) * BLOCK_MB < most_mb:
            held.append(b"x" * (BLOCK_MB << 20))
        else:
            time.sleep(0.2)


threading.Thread(target=eat, args=(int(sys.argv[1]), int(sys.argv[2])), daemon=True).start()
sys.stdin.read()
