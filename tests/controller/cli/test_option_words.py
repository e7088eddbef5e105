"""Options that `up` hands on as words of other commands: nothing that was given is lost, nothing else is said."""

from __future__ import annotations

from pathlib import Path

from controller.cli.common import option_words


def test_each_value_has_the_options_name_before_it() -> None:
    given = {"floor": "0.1", "allow-mount": (Path("/data"), Path("/more")), "grow": 0, "utilisation": 0.0}
    assert " ".join(option_words(given)) == "--floor 0.1 --allow-mount /data --allow-mount /more --grow 0 --utilisation 0.0"


def test_a_flag_is_its_name_alone_and_what_was_left_out_is_not_said() -> None:
    given = {"insecure": True, "detach": False, "image": None, "labels": "", "allow-mount": ()}
    assert option_words(given) == ("--insecure",)
