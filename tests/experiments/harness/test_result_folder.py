"""A result folder: what was asked cannot change under it, and what a crash left behind spoils nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from controller.runs.log_profile import logged_run
from controller.runs.run_folder import read_stages, read_summary
from experiments.harness.packed import pack
from experiments.harness.result_folder import Asked, ResultFolder, reading
from experiments.workloads.inputs import EVENT_LOGS
from stage_model.errors import BadInput
from tests.fakes.recorded import job_record, samples_of, step_record, write_run

LOG = Path(__file__).parents[2] / "data" / "eventlogs" / "spark43.gz"
ASKED = Asked(
    spec="fig4",
    scenario="fig4",
    title="t",
    quick=False,
    seed=1,
    cluster=("--workers", "2"),
    settings={"long": ["a.py"], "repetitions": 3},
)


def test_a_folder_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "r")
    assert folder.open(ASKED, None) == ASKED
    assert folder.open(ASKED, 5).settings["repetitions"] == 5
    # a later call without a number keeps the larger one
    assert folder.open(ASKED, None).settings["repetitions"] == 5
    assert folder.read_settings().settings == {"long": ["a.py"], "repetitions": 5}


def test_what_is_withdrawn_is_read_with_the_data(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    assert folder.data().withdrawn.runs == ()
    (tmp_path / "withdrawn.json").write_text('{"why": "the law was broken", "runs": ["a", "b"]}')
    withdrawn = folder.data().withdrawn
    assert (withdrawn.count(["a", "c"]), withdrawn.why) == (1, "the law was broken")


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"quick": True}, {"settings": {"long": ["b.py"], "repetitions": 3}}, {"cluster": ()}]
)
def test_other_settings_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    folder = ResultFolder(tmp_path)
    folder.open(ASKED, None)
    with pytest.raises(BadInput, match=next(iter(change))):
        folder.open(structs.replace(ASKED, **change), None)
    assert folder.read_settings() == ASKED


def test_records_and_runs_are_kept_and_read_back(tmp_path: Path) -> None:
    folder, job = ResultFolder(tmp_path / "r"), job_record("long", "app-1", end_s=20)
    folder.open(ASKED, None)
    write_run(tmp_path / "home", job, samples_of([(1, 5, 0.5)]))
    first = folder.begin(when="now", commit="c", machine={"cores": 2})
    folder.add(step_record("base-0", job, session=first.number), tmp_path / "home")
    second = folder.begin(when="later", commit="d", machine={})
    assert [session.number for session in folder.sessions()] == [1, 2]
    assert folder.sessions()[1] == second
    data = folder.data()
    assert data.steps["base-0"] == step_record("base-0", job)
    assert list(data.samples["app-1"]) == samples_of([(1, 5, 0.5)])
    assert [stage.name for stage in read_stages(folder.runs / "app-1")] == ["map at app.py"]
    assert sorted(path.name for path in (folder.runs / "app-1").iterdir()) == ["samples.csv", "stages.csv", "summary.json"]


def test_the_largest_stages_of_a_summary_lose_their_paths(tmp_path: Path) -> None:
    folder, job = ResultFolder(tmp_path / "r"), job_record("long", "app-1", end_s=20)
    job.summary["largest_stages"] = [{"name": "map at /home/me/app.py:9", "bound": "CPU"}]
    folder.open(ASKED, None)
    write_run(tmp_path / "home", job, samples_of([(1, 5, 0.5)]))
    folder.add(step_record("base-0", job), tmp_path / "home")
    [kept] = folder.data().steps["base-0"].jobs
    assert kept.summary["largest_stages"] == [{"name": "map at app.py", "bound": "CPU"}]
    assert read_summary(folder.runs / "app-1")["largest_stages"] == kept.summary["largest_stages"]


def test_half_a_line_is_not_read_and_the_next_line_is_whole(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.add(step_record("a"), tmp_path)
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"step": "b", "ses')
    assert list(folder.data().steps) == ["a"]
    folder.add(step_record("c"), tmp_path)
    assert list(folder.data().steps) == ["a", "c"]


def recorded(tmp_path: Path) -> ResultFolder:
    folder, job = ResultFolder(tmp_path / "plain"), job_record("long", "app-1", end_s=20)
    folder.open(ASKED, None)
    folder.begin(when="now", commit="c", machine={"cores": 2})
    write_run(tmp_path / "home", job, samples_of([(1, 5, 0.5)]))
    folder.add(step_record("base-0", job), tmp_path / "home")
    (folder.path / "withdrawn.json").write_text('{"why": "the law was broken", "runs": ["app-1"]}')
    return folder


def test_a_packed_folder_is_read_as_the_plain_one(tmp_path: Path) -> None:
    plain = recorded(tmp_path)
    plain.pack(tmp_path / "packed")
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == ["data.tar.xz", "withdrawn.json"]
    with reading(tmp_path / "packed") as packed, reading(plain.path) as read:
        assert read == plain
        assert packed.path == tmp_path / "packed"
        assert (packed.data(), packed.sessions(), packed.read_settings()) == (plain.data(), plain.sessions(), ASKED)
        # what is withdrawn has its data all the same
        assert packed.data().withdrawn.runs == ("app-1",)
        assert read_stages(packed.runs / "app-1") == read_stages(plain.runs / "app-1") != []
        unpacked = packed.data_path
    assert not unpacked.exists()
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == ["data.tar.xz", "withdrawn.json"]


def test_a_packed_folder_is_neither_written_nor_packed_again(tmp_path: Path) -> None:
    recorded(tmp_path).pack(tmp_path / "packed")
    before = (tmp_path / "packed" / "data.tar.xz").read_bytes()
    with pytest.raises(BadInput, match=r"`tar -xf data\.tar\.xz && rm data\.tar\.xz`"):
        ResultFolder(tmp_path / "packed").open(ASKED, 5)
    with pytest.raises(BadInput, match="packed"):
        ResultFolder(tmp_path / "packed").pack(tmp_path / "again")
    assert [path.name for path in sorted((tmp_path / "packed").iterdir())] == ["data.tar.xz", "withdrawn.json"]
    assert (tmp_path / "packed" / "data.tar.xz").read_bytes() == before


def test_data_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    recorded(tmp_path).pack(tmp_path / "both")
    (tmp_path / "both" / "sessions.jsonl").write_text("")
    sentence = r"both .*data\.tar\.xz.* sessions.jsonl"
    with pytest.raises(BadInput, match=sentence), reading(tmp_path / "both"):
        pass
    with pytest.raises(BadInput, match=sentence):
        ResultFolder(tmp_path / "both").open(ASKED, None)


def test_only_a_result_folder_is_packed_and_only_into_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(BadInput, match="no result folder"):
        ResultFolder(tmp_path / "other").pack(tmp_path / "packed")
    folder = recorded(tmp_path)
    for to in (tmp_path, folder.path):
        with pytest.raises(BadInput, match="not empty"):
            folder.pack(to)
    assert not (tmp_path / "packed").exists()
    folder.pack(tmp_path / "other")
    assert (tmp_path / "other" / "data.tar.xz").exists()


def test_an_archive_without_settings_is_no_result_folder(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / "packed").mkdir()
    pack(tmp_path / "plain", ("records.jsonl",), tmp_path / "packed" / "data.tar.xz")
    # the sentence names no folder that is gone by then
    with (
        pytest.raises(BadInput, match=r"packed .*settings.json: No such file"),
        reading(tmp_path / "packed") as packed,
    ):
        packed.read_settings()


def test_another_folder_is_no_result_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no result folder"):
        ResultFolder(tmp_path).read_settings()
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(BadInput, match="no result folder"):
        ResultFolder(tmp_path).read_settings()


def test_what_an_event_log_tells_is_kept_without_paths_and_only_of_a_run_that_ended_well(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "r")
    folder.open(ASKED, None)
    jobs = [job_record("long", "app-1", end_s=20), job_record("long", "app-2", end_s=20, exit_code=1)]
    (folder.path / EVENT_LOGS).mkdir()
    for job in jobs:
        write_run(tmp_path / "home", job, samples_of([(1, 5, 0.5)]))
        (folder.path / EVENT_LOGS / job.app_id).write_bytes(LOG.read_bytes())
        (folder.path / EVENT_LOGS / f".{job.app_id}.crc").write_bytes(b"crc")
    folder.add(step_record("base-0", *jobs), tmp_path / "home")
    whole = logged_run(LOG).record
    [(app_id, kept)] = folder.data().logs.items()
    assert (app_id, kept.duration_s, kept.arguments, len(kept.stages)) == ("app-1", whole.duration_s, None, len(whole.stages))
    assert whole.arguments == ("8000",)
    assert all("/" not in stage.name for stage in kept.stages)
    folder.pack(tmp_path / "packed")
    with reading(tmp_path / "packed") as packed:
        assert packed.data().logs == folder.data().logs


def test_what_a_run_printed_and_why_it_missed_are_read_with_the_data_and_survive_packing(tmp_path: Path) -> None:
    folder, packed = ResultFolder(tmp_path / "plain"), tmp_path / "packed"
    folder.open(ASKED, None)
    job = job_record("long", "app-1", end_s=50)
    write_run(tmp_path / "home", job, samples_of([(10, 40, 0.4)]))
    (tmp_path / "home" / "app-1" / "output.txt").write_text("answer 42\n")
    folder.add(step_record("alone-0", job), tmp_path / "home")
    (folder.path / "explained.json").write_text('{"alone-0": "Why it was late."}')
    folder.pack(packed)
    for path in (folder.path, packed):
        with reading(path) as results:
            data = results.data()
        assert data.outputs == {"app-1": "answer 42\n"}
        assert data.explained == {"alone-0": "Why it was late."}
