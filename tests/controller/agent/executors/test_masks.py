"""Binds of an executor and the masks in them, by example. For any tree: `tests/properties/test_masks.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.executors.masks import Place, Secret, ShowReason, Wanted, masked
from controller.runtime.base import Bind, Mask
from stage_model.errors import RuntimeRefused

ME = Path("/home/me")
SPARKPACE = Secret(ME / ".sparkpace", (Place(ME / ".sparkpace"),), "a home of Sparkpace")
AWS = Secret(ME / ".aws", (Place(ME / ".aws"),))
NETRC = Secret(ME / ".netrc", (Place(ME / ".netrc", folder=False),))
SECRETS = (SPARKPACE, AWS, NETRC)
ALL = (Mask(ME / ".aws", True), Mask(ME / ".netrc", False), Mask(ME / ".sparkpace", True))


def wanted(
    path: Path | str, reason: ShowReason = ShowReason.OPTIONAL, real: Path | None = None, *, writable: bool = False
) -> Wanted:
    return Wanted(Path(path), real or Path(path), reason, writable)


def refusal(one: Wanted) -> str:
    with pytest.raises(RuntimeRefused) as problem:
        masked([one], SECRETS)
    return str(problem.value)


def test_secrets_in_a_shown_folder_are_masked_and_files_next_to_it_do_not_matter() -> None:
    assert masked([wanted(ME)], SECRETS) == [Bind(ME, masks=ALL)]
    assert masked([wanted(ME / "project")], SECRETS) == [Bind(ME / "project")]
    assert masked([wanted("/home")], SECRETS) == [Bind(Path("/home"), masks=ALL)]


def test_the_executors_own_directories_are_shown_within_the_masked_home() -> None:
    own = wanted(ME / ".sparkpace/local/app", ShowReason.OWN, writable=True)
    assert masked([own, wanted(ME)], SECRETS) == [Bind(ME, masks=ALL), Bind(own.path, writable=True)]


def test_a_folder_of_credentials_is_shown_to_who_asks_for_it_by_name() -> None:
    for also in ([], [wanted(ME)]):
        binds = {bind.path: bind for bind in masked([*also, wanted(ME / ".aws", ShowReason.ASKED)], SECRETS)}
        assert binds[ME / ".aws"] == Bind(ME / ".aws")
        assert all(bind.masks == (ALL[1], ALL[2]) for path, bind in binds.items() if path == ME)


def test_only_the_named_file_in_it_is_shown() -> None:
    got = masked([wanted(ME), wanted(ME / ".aws/config", ShowReason.ASKED)], SECRETS)
    assert got == [Bind(ME, masks=ALL), Bind(ME / ".aws/config")]


def test_who_asks_for_a_folder_around_it_does_not_get_it() -> None:
    assert masked([wanted(ME, ShowReason.ASKED, writable=True)], SECRETS) == [Bind(ME, writable=True, masks=ALL)]


def test_no_executor_gets_its_own_orders_writable() -> None:
    orders = ME / ".sparkpace/agents/w1/orders/app/1"
    with pytest.raises(RuntimeRefused, match="leads into"):
        masked([wanted(orders, ShowReason.OWN), wanted(orders, ShowReason.ASKED, writable=True)], SECRETS)


def test_what_an_executor_needs_may_not_be_a_secret_whatever_it_claims_to_be() -> None:
    assert "admin.token' leads into" in refusal(wanted(ME / ".sparkpace/admin.token", ShowReason.NEEDED))
    assert f"'{ME}/.aws/spark' leads into {ME}/.aws" in refusal(wanted(ME / ".aws/spark", ShowReason.NEEDED))


def test_a_directory_of_submission_in_a_secret_is_left_out() -> None:
    jars = wanted("/opt/spark", ShowReason.NEEDED)
    for inside in (".sparkpace", ".sparkpace/runs/app", ".aws", ".aws/sso"):
        assert masked([jars, wanted(ME / inside)], SECRETS) == [Bind(jars.path)]


def test_unless_it_was_asked_for() -> None:
    asked = wanted(ME / ".aws", ShowReason.ASKED)
    assert masked([wanted(ME / ".aws"), asked], SECRETS) == [Bind(asked.path)]
    asked = wanted(ME / ".aws/sso", ShowReason.ASKED)
    assert masked([wanted(ME / ".aws/sso"), asked], SECRETS) == [Bind(asked.path)]


def test_a_secret_is_masked_where_a_link_shows_it() -> None:
    got = masked([wanted("/data/link", real=ME)], SECRETS)
    assert [mask.path for mask in got[0].masks] == [Path("/data/link", mask.path.relative_to(ME)) for mask in ALL]


def test_where_links_of_a_secret_lead_is_masked_and_shown_with_it() -> None:
    key = Place(ME / "dotfiles/id_rsa", folder=False)
    ssh = Secret(ME / ".ssh", (Place(ME / ".ssh"), key))
    hidden, shown = (masked(all_, [ssh])[0] for all_ in ([wanted(ME)], [wanted(ME), wanted(ME / ".ssh", ShowReason.ASKED)]))
    assert hidden.masks == (Mask(ME / ".ssh", True), Mask(key.path, False))
    assert shown == Bind(ME)
    alone = masked([wanted(ME), wanted(key.path, ShowReason.ASKED)], [ssh])
    assert alone == [Bind(ME, masks=(Mask(ME / ".ssh", True),)), Bind(key.path)]


def test_a_mask_within_a_mask_is_none() -> None:
    deep = Secret(ME / ".aws/sso", (Place(ME / ".aws/sso"),))
    assert masked([wanted(ME)], [deep, AWS]) == [Bind(ME, masks=(Mask(ME / ".aws", True),))]


def test_one_path_is_bound_once_and_writable_if_either_is() -> None:
    got = masked(
        [wanted("/data", ShowReason.ASKED, writable=True), wanted("/data", ShowReason.ASKED), wanted("/data")], SECRETS
    )
    assert got == [Bind(Path("/data"), writable=True)]
