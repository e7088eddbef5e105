"""Facts that are read from the Docker engine's answers, and time zone, character set and language of containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.docker import container
from controller.runtime.docker.locale_in_image import host_zone, in_image, language_words

SEEN = Observed(ExecutorKey("a", "1"), True, 0.5, 0.0, 0)


def stats(**cpu: Any) -> dict[str, Any]:
    return {"cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}, **cpu}}


def test_the_engine_tells_cpu_and_throttled_time_in_nanoseconds() -> None:
    found = container.with_stats(SEEN, stats(throttling_data={"throttled_periods": 3, "throttled_time": 750_000_000}))
    assert (found.cpu_s, found.throttled_s) == pytest.approx((2.5, 0.75))


def test_throttled_time_that_the_engine_does_not_tell_is_not_known() -> None:
    assert container.with_stats(SEEN, stats()).throttled_s is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"LANG": "de_DE.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.utf8@euro"}, "C.UTF-8"),
        ({"LC_CTYPE": "fr_FR.UTF-8", "LANG": "C"}, "C.UTF-8"),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "C"),
        ({"LC_ALL": "", "LANG": "de_DE.UTF-8"}, "C.UTF-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, None),
        ({"LANG": "C.UTF-8"}, None),
        ({"LANG": "C"}, None),
        ({}, None),
    ],
)
def test_a_locale_of_utf8_becomes_one_that_images_have(given: dict[str, str], expected: str | None) -> None:
    got = in_image(given)
    assert got.get("LC_ALL") == expected
    assert {name: value for name, value in got.items() if name != "LC_ALL"} == {
        name: value for name, value in given.items() if name != "LC_ALL"
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"LANG": "de_DE.UTF-8"}, ["-Duser.language=de", "-Duser.country=DE"]),
        ({"LANG": "tr_TR.UTF-8", "LC_ALL": "en_US.UTF-8"}, ["-Duser.language=en", "-Duser.country=US"]),
        ({"LANG": "eo.UTF-8"}, ["-Duser.language=eo"]),
        ({"LANG": "C.UTF-8"}, []),
        ({"LANG": "POSIX"}, []),
        ({}, []),
    ],
)
def test_java_is_given_the_language_of_the_locale(given: dict[str, str], words: list[str]) -> None:
    assert language_words(given) == words


class TestHostZone:
    @pytest.mark.parametrize("name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC"])
    def test_a_link_names_it(self, tmp_path: Path, name: str) -> None:
        rules = tmp_path / "share/zoneinfo" / name
        rules.parent.mkdir(parents=True)
        rules.touch()
        (tmp_path / "localtime").symlink_to(rules)
        assert host_zone(tmp_path / "localtime") == {"TZ": name}

    def test_a_copy_of_the_rules_names_none(self, tmp_path: Path) -> None:
        (tmp_path / "localtime").touch()
        assert host_zone(tmp_path / "localtime") == {}

    def test_no_file_names_none(self, tmp_path: Path) -> None:
        assert host_zone(tmp_path / "localtime") == {}
