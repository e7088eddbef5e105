"""Masks, whatever is mounted and whatever is secret: a container shows no secret, and shows what was asked for.

The container is a model of the engine's rule: of all mounts at or above a path, the deepest one is what is seen there.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from controller.agent.executors.masks import Place, Secret, ShowReason, Wanted, masked
from controller.runtime.base import Bind
from stage_model.errors import RuntimeRefused

NAMES = ("a", "b", "c")
LINK = Path("/link")
TREE = [Path("/", *names) for depth in range(1, 5) for names in product(NAMES, repeat=depth)]
folders = st.sampled_from([path for path in TREE if len(path.parts) < 5])
secrets = st.lists(
    st.builds(
        lambda places, closed: Secret(places[0], tuple(map(Place, places)), "closed" if closed else ""),
        st.lists(folders, min_size=1, max_size=2, unique=True),
        st.booleans(),
    ),
    max_size=4,
)


@st.composite
def mounts(draw: st.DrawFn, hidden: list[Secret]) -> list[Wanted]:
    reasons = st.sampled_from([ShowReason.OPTIONAL, ShowReason.NEEDED, ShowReason.ASKED])
    asked = [Wanted(path, path, draw(reasons)) for path in draw(st.lists(folders, max_size=3))]
    if draw(st.booleans()):
        asked.append(Wanted(LINK, draw(folders), draw(reasons)))
    homes = [secret.places[0].path for secret in hidden if secret.closed]
    own = [home / name for home in homes for name in draw(st.lists(st.sampled_from(NAMES), max_size=1))]
    return [*asked, *(Wanted(path, path, ShowReason.OWN) for path in own if path not in {s.places[0].path for s in hidden})]


cases = secrets.flatmap(lambda hidden: st.tuples(st.just(hidden), mounts(hidden)))


def seen(path: Path, binds: list[Bind], real: dict[Path, Path]) -> Path | None:
    """Return the path that really lies at `path` in the container; None where a mask lies, or no file of the host."""
    shown = {bind.path: True for bind in binds}
    tops = {**{mask.path: False for bind in binds for mask in bind.masks}, **shown}
    top = max((one for one in tops if path.is_relative_to(one)), key=lambda one: len(one.parts), default=None)
    return real[top] / path.relative_to(top) if top is not None and tops[top] else None


@given(cases)
def test_no_secret_is_seen_but_by_who_may_and_nothing_that_was_wanted_is_missing(
    case: tuple[list[Secret], list[Wanted]],
) -> None:
    hidden, wanted = case
    try:
        binds = masked(wanted, hidden)
    except RuntimeRefused:
        assume(False)
    real = {one.path: one.real for one in wanted}
    own = [one.real for one in wanted if one.reason == ShowReason.OWN]
    asked = {one.real for one in wanted if one.reason == ShowReason.ASKED}
    for inside in (*TREE, *(LINK / path.relative_to("/") for path in TREE)):
        found = seen(inside, binds, real)
        if found is None or any(found.is_relative_to(path) for path in own):
            continue
        for secret in hidden:
            for place in secret.places:
                if found.is_relative_to(place.path):
                    within = [path for path in asked if found.is_relative_to(path)]
                    named = {secret.places[0].path, place.path} & asked
                    assert not secret.closed
                    assert named or any(path.is_relative_to(place.path) for path in within)
    for one in wanted:
        if one.reason != ShowReason.OPTIONAL:
            assert seen(one.path, binds, real) == one.real


@given(cases)
def test_a_mount_is_refused_or_left_out_only_for_a_secret_around_it(case: tuple[list[Secret], list[Wanted]]) -> None:
    hidden, wanted = case
    around = [
        one
        for one in wanted
        if one.reason != ShowReason.OWN and any(one.real.is_relative_to(p.path) for s in hidden for p in s.places)
    ]
    try:
        binds = masked(wanted, hidden)
    except RuntimeRefused:
        assert around
    else:
        assert {one.path for one in wanted} - {bind.path for bind in binds} <= {one.path for one in around}
