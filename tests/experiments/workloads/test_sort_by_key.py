"""Sort-by-key's own check, with text and with numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiments.workloads.sort_by_key import Field, as_numbers, as_text, check_part, permutation

N = 1000
Form = Callable[[int, int], tuple[Field, Field]]
FORMS = pytest.mark.parametrize("form", [as_text, as_numbers])


def ordered(form: Form, seed: int) -> list[tuple[Field, Field]]:
    factor, offset = permutation(N, seed)
    return sorted(form((factor * i + offset) % N, i) for i in range(N))


def wrong_in(pairs: list[tuple[Field, Field]], seed: int = 1) -> int:
    [(_, _, _, found)] = check_part(pairs, N, *permutation(N, seed))
    return found


@FORMS
@pytest.mark.parametrize("seed", range(4))
def test_the_sorted_pairs_are_where_they_belong_whatever_their_form(form: Form, seed: int) -> None:
    factor, offset = permutation(N, seed)
    pairs = ordered(form, seed)
    assert list(check_part(pairs, N, factor, offset)) == [(0, N, N * (N - 1) // 2, 0)]
    [(first, count, _, wrong)] = check_part(pairs[300:500], N, factor, offset)
    assert (first, count, wrong) == (300, 200, 0)
    assert list(check_part([], N, factor, offset)) == []


@FORMS
def test_pairs_out_of_order_and_values_under_another_key_are_noticed(form: Form) -> None:
    pairs = ordered(form, 1)
    assert wrong_in([*pairs[:10], pairs[11], pairs[10], *pairs[12:]]) == 2
    assert wrong_in([(pairs[0][0], pairs[1][1]), (pairs[1][0], pairs[0][1]), *pairs[2:]]) == 2
