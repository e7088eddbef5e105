from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.main import main
from controller.runs.profile_store import ProfileStore
from stage_model.errors import BadInput
from stage_model.forecast.curve import Curve, curve, reference_slots
from stage_model.history.profile import Profile, profile
from tests.fakes.records import run, stage

WORKS = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=5)


def known(*works: float) -> Profile:
    return profile("k", [run(f"r{i}", i, stage("x", work_core_s=w, task_cv=0.0)) for i, w in enumerate(works)])


def test_half_the_cores_take_the_work_twice_as_long_and_one_run_has_no_interval() -> None:
    found = curve(known(10.0), 2, 2.0)
    half, all_of_them = found.points[3], found.points[7]
    assert (half.cores, all_of_them.cores) == (1.0, 2.0)
    # 10 core-seconds take 10 s on one core and 5 s on two; everything else is fixed
    assert half.end_s - all_of_them.end_s == pytest.approx(5.0)
    assert (found.runs, half.least_s, half.most_s) == (1, None, None)


@given(WORKS)
def test_more_cores_never_end_later_and_the_interval_holds_the_end(works: list[float]) -> None:
    points = curve(known(*works), 2, 2.0).points
    ends = [point.end_s for point in points]
    assert min(ends) >= 0
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(ends))
    assert all(p.least_s is None or p.most_s is None or p.least_s <= p.end_s <= p.most_s for p in points)


def test_a_run_without_slots_is_refused() -> None:
    with pytest.raises(BadInput, match="0 slots"):
        reference_slots(profile("k", [run("a", 1, stage("x"), slots=0)]))


def test_the_command_tells_the_same_as_json_and_for_people(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    store.add(known(10.0, 12.0))
    words = ["profile", "curve", "--home", str(tmp_path), "k"]
    answer = CliRunner().invoke(main, [*words, "--output", "json"])
    assert msgspec.json.decode(answer.stdout, type=Curve) == curve(known(10.0, 12.0), 2, 2.0)
    shown = CliRunner().invoke(main, [*words, "-o", str(tmp_path / "curve.png")])
    assert "only 2 runs" in shown.stdout
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_curve_ends_at_the_most_cores_and_a_slow_slot_holds_it_up() -> None:
    found = curve(known(10.0), 2, 1.6, speed_limit=0.8)
    assert [point.cores for point in found.points] == pytest.approx([0.2 * number for number in range(1, 9)])
    assert found.points[-1].end_s == pytest.approx(curve(known(10.0), 2, 2.0).points[-1].end_s + 10 / 1.6 - 5)
