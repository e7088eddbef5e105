"""Code that commands share: the application that a word names, and options that `up` hands on as words of other commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from controller.cli.common import choose, option_words
from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from stage_model.errors import BadInput
from tests.fakes.views import VIEW


def view(
    application_id: str, name: str, state: ApplicationState = ApplicationState.RUNNING, submitted: str = ""
) -> ApplicationView:
    return structs.replace(VIEW, application_id=application_id, name=name, state=state, submitted_name=submitted)


def test_a_name_is_that_of_the_running_one_before_a_newer_ended_one() -> None:
    views = [
        view("pace-1", "a", ApplicationState.ENDED),
        view("pace-2", "a"),
        view("pace-3", "a", ApplicationState.ENDED),
        view("pace-4", "b", ApplicationState.ENDED),
    ]
    assert choose(views, "a").application_id == "pace-2"
    assert choose(views, "b").application_id == "pace-4"
    assert choose(views, "last").application_id == "pace-4"


def test_a_name_of_several_running_ones_is_refused_with_their_ids() -> None:
    views = [view("pace-1", "a"), view("pace-2", "a")]
    with pytest.raises(BadInput, match=r"'a'.*pace-1, pace-2"):
        choose(views, "a")
    assert choose(views, "pace-1").application_id == "pace-1"


def test_the_name_that_an_application_was_submitted_with_is_its_name_too() -> None:
    views = [view("pace-1", "own", ApplicationState.ENDED, submitted="load"), view("pace-2", "other", ApplicationState.ENDED)]
    assert choose(views, "load").application_id == "pace-1"
    assert choose(views, "own").application_id == "pace-1"
    with pytest.raises(BadInput, match=r"'lod'.* load, "):
        choose(views, "lod")
    both = [view("pace-1", "own", submitted="load"), view("pace-2", "load")]
    with pytest.raises(BadInput, match=r"'load'.*pace-1, pace-2"):
        choose(both, "load")


def test_the_start_of_an_id_must_be_of_one_only() -> None:
    views = [view("pace-11", "a"), view("pace-12", "b")]
    with pytest.raises(BadInput, match="pace-11, pace-12"):
        choose(views, "pace-1")
    with pytest.raises(BadInput, match=r"'c'.* [ab], [ab], "):
        choose(views, "c")
    with pytest.raises(BadInput, match=r"'pace-21'.* pace-12, pace-11, "):
        choose(views, "pace-21")


def test_each_value_has_the_options_name_before_it() -> None:
    given = {"floor": "0.1", "allow-mount": (Path("/data"), Path("/more")), "grow": 0, "utilisation": 0.0}
    assert " ".join(option_words(given)) == "--floor 0.1 --allow-mount /data --allow-mount /more --grow 0 --utilisation 0.0"


def test_a_flag_is_only_its_name_and_an_option_without_a_value_is_left_out() -> None:
    given = {"evict": True, "detach": False, "image": None, "labels": "", "allow-mount": ()}
    assert option_words(given) == ("--evict",)
