"""Names of stages, by which the same stage of another run of the same application gets the same name.

A signature is made of the call site (function and file base name, no line numbers), the operator scopes of the RDD chain, the
parents by their shape and the ordinal among equals; never of the bare stage id. So it survives edits above the call, AQE
(which submits a stage again under other ids), skipped stages and iteration. It is made when a stage is submitted, from what
was seen until then: live runs and logs get the same signatures. See docs/profiles.md. Not covered: folding of events (`run`),
comparing runs (`match`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from stage_model.history.events import JobStart, StageInfo

_CALL_SITE = re.compile(r"^(?P<function>.*) at (?P<file>.*?)(?::\d+)?$", re.DOTALL)
_NOTEBOOK = re.compile(r"ipykernel_\d+|<ipython-input|<stdin>|<console>")
_COUNTERS = re.compile(r"\$\d+|#\d+L?")
"""Numbers that Spark and the JVM hand out in order of appearance: lambdas, expression ids."""
_BATCH_TIME = re.compile(r"\s@ \d\d:\d\d:\d\d(?:\.\d+)?$")
"""The time of a micro-batch at the end of its RDDs' scopes (Spark's class DStream, makeScope)."""
_CODEGEN = re.compile(r"(?:(?<!\s)\s+)?\*?\(\d+\)\s*")
"""The number of a code generation stage. The plan fixes it for stages that read tables, and there only the number tells two
tables apart whose jobs AQE starts at once in any order. Later stages have it by completion order, and there parents tell them
apart."""
_PATH = re.compile(r"(?<!\S)\S*/")
_SPARKS_THREADS = re.compile(r" at (CompletableFuture|FutureTask|ThreadPoolExecutor)\.java$")
"""The call sites of the jobs that Spark's own threads start for a query."""
_LONGEST_SCOPE = 120
_LONGEST_PREFIX = 40
RESULT = ", result"


class Names(NamedTuple):
    """The names by which a stage may be known in another run, the surest first; "" for a name that it does not have.

    `kind` is its signature without the ordinal. `structure` is made of operator scopes only (`Signatures`), `site` of the
    call site only. `site` has a mark for the *result* stage of a job: the stage that the job is for, and that no other stage
    of the job needs. Jobs of Spark's own threads share their call sites, so these name nothing.
    """

    kind: str
    structure: str = ""
    site: str = ""


def stage_names(kind: str, structure: str, name: str, *, result: bool) -> Names:
    """Return the names of a stage. `name` is Spark's name of it; `result`: the stage is the result stage of its job."""
    site = call_site(name)
    if _SPARKS_THREADS.search(site):
        return Names(kind, structure)
    return Names(kind, structure, site + RESULT if result else site)


@lru_cache(maxsize=4096)
def call_site(name: str) -> str:
    """Return the call site without path and line: "reduceByKey at /x/app.py:12" -> "reduceByKey at app.py". A notebook's
    cell, whose name differs each time, is "notebook"."""
    found = _CALL_SITE.match(name)
    if not found:
        return _COUNTERS.sub("", name).strip()
    file = "notebook" if _NOTEBOOK.search(found["file"]) else re.split(r"[/\\]", found["file"])[-1]
    return f"{_COUNTERS.sub('', found['function']).strip()} at {file}"


def folded_scopes(scopes: Iterable[str], *, leaf: bool) -> tuple[str, ...]:
    """Return the scopes without counters, paths and times of micro-batches; of consecutive equal scopes one stays. `leaf`:
    the stage has no parents."""
    folded: list[str] = []
    for full in scopes:
        scope = _BATCH_TIME.sub("", full if leaf else _CODEGEN.sub("", full))
        plain = _COUNTERS.sub("", _PATH.sub("", scope)).strip()[:_LONGEST_SCOPE]
        if not folded or folded[-1] != plain:
            folded.append(plain)
    return tuple(folded)


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=4).hexdigest()


def kind(signature: str) -> str:
    """Return what stages of equal shape have in common: the signature without its ordinal."""
    return signature.rpartition("-")[0] or signature


def of_python_rdds(scopes: Iterable[str]) -> bool:
    """Return True if RDDs of PySpark are worked out in a stage with these operator scopes."""
    return any("PythonRDD" in scope for scope in scopes)


class Signatures:
    """The signatures of one run, handed out in order of submission.

    A stage's *shape* leaves out the ordinal: stages of equal shape compute the same data, so Spark may skip one because the
    other ran. A *signature* adds the ordinal among equals and is unique within the run; the order of equals does not show
    which of another run's equals it is (`stage_model.forecast.same_stage`). A *structure* leaves out the call sites, too:
    PySpark counts nested calls for all threads together, so it mixes up those of jobs submitted at once. Only stages of
    PySpark's RDDs have one.
    """

    def __init__(self) -> None:
        self._shapes: dict[int, str] = {}
        self._structures: dict[int, str] = {}
        self._sql_ordinals: dict[str, int] = {}
        self._equals: dict[str, int] = {}
        self._given: dict[int, str] = {}

    def job(self, event: JobStart) -> int | None:
        """Take in a job's stages; cost is linear in their number. A repeated event changes nothing. Return the ordinal of the
        job's SQL execution, if the job has one."""
        sql: int | None = None
        if event.sql_execution is not None:
            sql = self._sql_ordinals.setdefault(event.sql_execution, len(self._sql_ordinals))
        infos = {info.stage: info for info in event.stages}
        # A parent's id may be above its child's: parents are shaped on demand, without recursion (chains are long).
        pending, visited = list(infos), set[int]()
        while pending:
            stage = pending[-1]
            if stage not in visited:
                visited.add(stage)
                pending += [p for p in infos[stage].parents if p in infos and p not in self._shapes and p not in visited]
                continue
            pending.pop()
            self._shape(infos[stage])
        return sql

    def _shape(self, info: StageInfo) -> str:
        shape = self._shapes.get(info.stage)
        if shape is None:
            scopes = folded_scopes(info.scopes, leaf=not info.parents)
            parents = sorted(self._shapes.get(parent, "") for parent in info.parents)
            shape = self._shapes[info.stage] = _digest(call_site(info.name), scopes, parents)
            structures = sorted(self._structures.get(parent, "") for parent in info.parents)
            self._structures[info.stage] = _digest(scopes, structures) if of_python_rdds(scopes) else ""
        return shape

    def shape(self, stage: int) -> str | None:
        """Return the shape of a stage seen so far."""
        return self._shapes.get(stage)

    def result(self, event: JobStart) -> tuple[int, Names] | None:
        """Return the result stage of a job that was taken in, with its names; None for a job without stages."""
        needed = {parent for info in event.stages for parent in info.parents}
        results = (info for info in event.stages if info.stage not in needed)
        found = max(results, key=lambda info: info.stage, default=None)
        if found is None:
            return None
        return found.stage, stage_names(self._kind(found), self._structures[found.stage], found.name, result=True)

    def structure(self, stage: int) -> str:
        """Return the structure of a stage that was submitted, "" for a stage without one."""
        return self._structures[stage]

    def submitted(self, info: StageInfo) -> str:
        """Return the signature of a stage that was submitted; further attempts have the same signature."""
        if info.stage not in self._given:
            shape = self._shape(info)
            ordinal = self._equals[shape] = self._equals.get(shape, 0) + 1
            self._given[info.stage] = f"{self._kind(info)}-{ordinal}"
        return self._given[info.stage]

    def _kind(self, info: StageInfo) -> str:
        readable = re.sub(r"[^\w.$<>-]+", "_", call_site(info.name).replace(" at ", "@").replace("@", "-at-"))
        return f"{readable[:_LONGEST_PREFIX]}-{self._shape(info)}"
