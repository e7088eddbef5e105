"""Hostile input for every parser of what others write (`targets`), a little for each."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.api import Conversation, conversations
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

EXAMPLES = {True: 10, False: 60}
"""Numbers of examples for slow targets (True) and others (False)."""
CUTS = {True: (1.0, 0.5), False: (1.0, 0.5, 1 / 3, 0.0)}
"""The parts of a good input that are tried, by whether a target is slow."""


def tried(target: Target, data: bytes) -> None:
    """Try an input; whatever is raised besides the target's own errors fails the test."""
    with contextlib.suppress(*target.errors):
        target.take(data)


@pytest.mark.parametrize("name", TARGETS)
def test_good_input_is_taken_and_cut_off_at_any_place_it_is_taken_or_refused(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        for part in CUTS[target.slow]:
            tried(target, seed[: int(part * len(seed))])
        if not target.slow:
            tried(target, seed[:-1])


def test_good_conversations_are_no_refusals(tmp_path: Path) -> None:
    """Inputs behind a registration would otherwise not be tried."""
    registered = 0
    for number, seed in enumerate(conversations()):
        (tmp_path / str(number)).mkdir()
        with Conversation(tmp_path / str(number)) as talk:
            talk.say(seed)
            registered += talk.token != "none"
    assert registered == sum(b"\nR" in b"\n" + seed for seed in conversations())


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_taken_or_refused(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES[target.slow])
    @given(st.sampled_from(target.seeds), st.randoms(use_true_random=False), st.integers(1, 4))
    def hostile(seed: bytes, choices: random.Random, times: int) -> None:
        for _ in range(times):
            seed = mutated(seed, choices)
        tried(target, seed)

    hostile()
