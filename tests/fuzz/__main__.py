"""`make fuzz`: Atheris tries inputs on every target of the table for as long as one likes.

One process per target, with what a run found interesting kept in out/fuzz/NAME/corpus for the next one. An error that the
table does not allow, a time-out and too much memory are findings: the input and what was raised go to out/fuzz/NAME/findings,
each kind of error once. Ends with a table of targets, inputs, seconds and findings, also in out/fuzz/table.txt, and with exit
code 1 if there are findings. Atheris has wheels for Python 3.11 to 3.13 on x86-64 alone; elsewhere the same targets are tried
by `python -m pytest tests/fuzz`.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "fuzz"
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
LONGEST_INPUT = 65_536
TIMEOUT_S = 10
"""Of one input, by the clock; only one that takes `SLOW_CPU_S` of CPU when it is tried again is a finding."""
SLOW_CPU_S = 2.0
LONGEST_AGAIN_S = 60
MOST_MB = 2048
PRODUCT = ("stage_model", "placement", "master_memory", "controller")


@dataclass(frozen=True)
class Row:
    name: str
    inputs: int
    seconds: float
    findings: int


def main(words: Sequence[str]) -> int:
    options = argparse.ArgumentParser(prog="make fuzz")
    options.add_argument("--seconds", type=float, default=600, help="for all targets together")
    options.add_argument("--jobs", type=int, default=2, help="targets at a time")
    options.add_argument("--target", action="append", help="this one alone; may be given again")
    options.add_argument("--child", nargs=2, metavar=("TARGET", "SECONDS"), help=argparse.SUPPRESS)
    options.add_argument("--again", nargs=2, metavar=("TARGET", "FILE"), help="tries one input without Atheris")
    given = options.parse_args(words)
    if given.child:
        return _child(given.child[0], int(given.child[1]))
    if given.again:
        return _again(given.again[0], Path(given.again[1]))
    from tests.fuzz.targets import TARGETS

    names = given.target or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        options.error(f"{min(unknown)!r} is no target; accepted: {', '.join(TARGETS)}")
    each_s = given.seconds * min(given.jobs, len(names)) / len(names)
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda name: _run(name, each_s), names))
    table = _table(rows)
    (OUT / "table.txt").write_text(table)
    print(table, end="")
    return 1 if any(row.findings for row in rows) else 0


def _table(rows: Sequence[Row]) -> str:
    lines = ["| target | inputs | seconds | findings |", "| --- | ---: | ---: | ---: |"]
    total = Row("all", sum(r.inputs for r in rows), sum(r.seconds for r in rows), sum(r.findings for r in rows))
    lines += [f"| {row.name} | {row.inputs:,} | {row.seconds:.0f} | {row.findings} |" for row in (*rows, total)]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- one target, from outside


def _run(name: str, seconds: float) -> Row:
    """Begins the process anew after each time-out, until the time is over."""
    here = OUT / name
    findings = here / "findings"
    for folder in (here / "corpus", findings):
        folder.mkdir(parents=True, exist_ok=True)
    for old in findings.iterdir():  # what was found once is tried first, and counts if it still does harm
        if old.suffix == ".input":
            old.replace(here / "corpus" / old.name)
        else:
            old.unlink()
    begun, inputs = time.monotonic(), 0
    while (left_s := int(seconds - (time.monotonic() - begun))) > 0 or not inputs:
        # the process ends amid an input, whose files would be left
        with (here / "log").open("wb") as log, tempfile.TemporaryDirectory(dir=IN_MEMORY, prefix="sparkpace-fuzz-") as files:
            command = [sys.executable, "-m", "tests.fuzz", "--child", name, str(max(1, left_s))]
            env = {**os.environ, "TMPDIR": files}
            code = subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, check=False, env=env).returncode
        told = (here / "log").read_text(errors="replace")
        tried = [int(number) for number in re.findall(r"^(?:#|stat::number_of_executed_units: *)(\d+)", told, re.MULTILINE)]
        inputs += max(tried, default=0)
        artifacts = [path for kind in ("timeout", "oom", "crash", "slow-unit") for path in here.glob(f"{kind}-*")]
        for artifact in artifacts:
            _look(name, artifact, findings)
        if code and not artifacts:
            (findings / f"ended-with-{code}.txt").write_text(told[-4000:])
            break
    return Row(name, inputs, time.monotonic() - begun, len(list(findings.glob("*.txt"))))


def _look(name: str, artifact: Path, findings: Path) -> None:
    """Tries an input again that ended the process: what it does alone is what counts."""
    command = [sys.executable, "-m", "tests.fuzz", "--again", name, str(artifact)]
    try:
        done = subprocess.run(command, capture_output=True, cwd=ROOT, check=False, timeout=LONGEST_AGAIN_S)
        code, told = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        code, told = 1, (error.stdout or b"") + (error.stderr or b"")
    if code:
        said = told.decode(errors="replace")
        stack = [line.strip() for line in said.splitlines() if str(ROOT) in line and "/tests/" not in line]
        sign = hashlib.sha256((stack[0] if stack else str(code)).encode()).hexdigest()[:12]
        kind = artifact.name.partition("-")[0]
        (findings / f"{kind}-{sign}.txt").write_text(said)
        artifact.replace(findings / f"{kind}-{sign}.input")
    else:
        artifact.unlink()


def _again(name: str, file: Path) -> int:
    """0: all is well with that input. Tells where it spends its time, and what it raises."""
    from tests.fuzz.targets import TARGETS

    _quiet()
    target, data = TARGETS[name], file.read_bytes()
    faulthandler.dump_traceback_later(SLOW_CPU_S, repeat=True)
    begun = time.process_time()
    with contextlib.suppress(*target.errors):
        target.take(data)
    used_s = time.process_time() - begun
    print(f"{len(data)} bytes took {used_s:.2f} s of CPU")
    return int(used_s > SLOW_CPU_S)


# ---------------------------------------------------------------- one target, inside Atheris


def _child(name: str, seconds: int) -> int:
    import atheris

    with atheris.instrument_imports(include=list(PRODUCT)):
        from tests.fuzz.targets import TARGETS
    from tests.fuzz.mutate import mutated

    _quiet()
    here, target = OUT / name, TARGETS[name]
    seeds = here / "seeds"
    seeds.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (seeds / str(number)).write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            target.take(data)
        except target.errors:
            return
        except Exception as error:  # noqa: BLE001 - it is kept as a finding
            _keep(here / "findings", data, error)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        return atheris.Mutate(data, most) if random.random() < 0.3 else mutated(data, random)[:most]

    settings = {
        "max_total_time": seconds,
        "timeout": TIMEOUT_S,
        "max_len": LONGEST_INPUT,
        "rss_limit_mb": MOST_MB,
        "artifact_prefix": f"{here}/",
        "print_final_stats": 1,
        "report_slow_units": TIMEOUT_S,
    }
    flags = [f"-{key}={value}" for key, value in settings.items()]
    atheris.Setup([sys.argv[0], *flags, str(here / "corpus"), str(seeds)], one_input, custom_mutator=mutator)
    atheris.Fuzz()
    return 0


def _keep(findings: Path, data: bytes, error: Exception) -> None:
    """Once for each place of the product and kind of error."""
    where = _innermost(error.__traceback__)
    sign = f"{type(error).__name__}-{where.replace('/', '.')}"
    if not (findings / f"{sign}.txt").exists():
        (findings / f"{sign}.input").write_bytes(data)
        (findings / f"{sign}.txt").write_text("".join(traceback.format_exception(error)))


def _innermost(trace: TracebackType | None) -> str:
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename.startswith(str(ROOT))]
    product = [frame for frame in frames if Path(frame.filename).relative_to(ROOT).parts[0] in PRODUCT]
    last = (product or frames)[-1]
    return f"{Path(last.filename).relative_to(ROOT)}-{last.lineno}"


def _quiet() -> None:
    logging.getLogger("sparkpace").addHandler(logging.NullHandler())
    logging.lastResort = None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
