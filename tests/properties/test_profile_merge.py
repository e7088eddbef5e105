from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stage_model.history.profile import RUNS_KEPT, Profile, merge, parse_profile, profile, profile_json
from tests.fakes.records import run, stage

RECORDS = st.builds(
    lambda number, when_ms, work: run(f"r{number}", when_ms, stage("s", work_core_s=work)),
    st.integers(0, 40),
    st.integers(0, 10),
    st.sampled_from([1.0, 2.0]),
)
PROFILES = st.lists(RECORDS, max_size=30).map(lambda runs: profile("k", runs))


@given(PROFILES, PROFILES, PROFILES)
def test_merging_is_order_free(a: Profile, b: Profile, c: Profile) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, a) == a


@given(PROFILES, PROFILES)
def test_a_merged_profile_has_each_run_once_and_the_newest_of_all(a: Profile, b: Profile) -> None:
    merged = merge(a, b)
    ids = [r.id for r in merged.runs]
    assert len(ids) == len(set(ids)) == min(RUNS_KEPT, len({r.id for r in (*a.runs, *b.runs)}))
    assert [(r.when_ms, r.id) for r in merged.runs] == sorted((r.when_ms, r.id) for r in merged.runs)
    if merged.runs:
        assert merged.runs[-1].when_ms == max(r.when_ms for r in (*a.runs, *b.runs))


@given(PROFILES)
def test_a_profile_survives_its_file(a: Profile) -> None:
    assert parse_profile(profile_json(a)) == a
