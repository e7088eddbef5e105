"""Java properties, read and written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.asks.properties import format_properties, parse_properties

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x0b\x0c\x1c\x1d\x1e\x1f\x85  \xa0"), max_size=20)
KEYS = st.from_regex(r"[a-z][a-zA-Z0-9.:= ]{0,20}[a-z]", fullmatch=True)


def test_the_forms_that_spark_reads() -> None:
    text = "# note\n! note\n\nspark.a   b c \nspark.b=x=y\n spark.c: \\\n   joined\nspark.d=tab\\tq\\u0041\nspark.e\n"
    assert parse_properties(text) == {
        "spark.a": "b c",
        "spark.b": "x=y",
        "spark.c": "joined",
        "spark.d": "tab\tqA",
        "spark.e": "",
    }


@given(st.dictionaries(KEYS, TEXT.map(str.strip), max_size=5))
def test_what_is_written_is_read_back(settings: dict[str, str]) -> None:
    assert parse_properties(format_properties(settings)) == settings


def test_two_halves_of_a_character_make_one_and_a_single_half_makes_no_character() -> None:
    assert parse_properties(r"spark.a=\ud83d\ude00 \ud83d") == {"spark.a": "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"}


def test_a_key_that_would_begin_a_comment_is_read_back() -> None:
    assert parse_properties(format_properties({"#a": "1", "!b": "2"})) == {"#a": "1", "!b": "2"}
