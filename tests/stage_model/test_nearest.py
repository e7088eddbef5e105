"""The sentence about an unknown name."""

from __future__ import annotations

import pytest

from stage_model.nearest import LONGEST, nearest_applications, nearest_names


@pytest.mark.parametrize(
    ("given", "known", "said"),
    [
        ("pagrank", ["kmeans", "pagerank", "sort", "svm"], "the nearest names are pagerank, "),
        ("x", ["kmeans", "sort"], "the nearest names are "),
        ("x", ["kmeans", "kmeans"], "the only name is kmeans"),
        ("x", [], "there are none yet"),
    ],
)
def test_the_nearest_names_are_said(given: str, known: list[str], said: str) -> None:
    assert nearest_names(given, known).startswith(said)


def test_no_more_than_three_are_said() -> None:
    assert nearest_names("job", [f"job-{number}" for number in range(9)]).count("job-") == 3


def test_a_name_of_any_length_is_compared_in_part() -> None:
    same = "a" * LONGEST
    assert nearest_names(same + "b" * 1_000_000, [same, "b" * LONGEST], most=1) == f"the only name is {same}"


def test_what_begins_as_an_id_is_compared_with_ids() -> None:
    ids, names = ["pace-20261121-103319-c7e35d", "pace-20261121-110000-aaaaaa"], ["sort", "kmeans"]
    assert nearest_applications("pace-20261121-103318", ids, names).startswith(f"the nearest names are {ids[0]}, ")
    assert nearest_applications("sorty", ids, names).startswith("the nearest names are sort, ")
