"""A pipeline's file: its jobs in order, and every mistake told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.submit.pipeline_file import PipelineFile, parse_pipeline, read_pipeline
from stage_model.errors import BadInput

NIGHTLY = """
by = "07:00"
[jobs.report]
app = "report.py"
after = ["clean", "load"]
priority = "high"
profile = "r"
options = ["--executor-memory", "2g"]
[jobs.clean]
app = "clean.py"
after = ["load"]
priority = 7
[jobs.load]
app = "load.py"
args = ["--day", "1"]
"""


def parse(text: str) -> PipelineFile:
    return parse_pipeline(text, source="p.toml", name="p")


def test_jobs_come_in_order_and_are_words_of_submit() -> None:
    found = parse(NIGHTLY)
    assert (found.name, found.by, list(found.jobs)) == ("p", "07:00", ["load", "clean", "report"])
    assert found.jobs["load"].words(Path("/h"), "--by", "9s") == ["--home", "/h", "--by", "9s", "load.py", "--day", "1"]
    said = found.jobs["report"].words(Path("/h"))
    assert said == ["--home", "/h", "--profile", "r", "--priority", "high", "--executor-memory", "2g", "report.py"]
    assert "7" in found.jobs["clean"].words(Path("/h"))


def test_a_file_without_a_name_is_named_like_the_file(tmp_path: Path) -> None:
    file = tmp_path / "weekly.toml"
    file.write_text('[jobs.a]\napp = "a.py"\n')
    assert read_pipeline(file).name == "weekly"
    file.write_text('name = "other"\n[jobs.a]\napp = "a.py"\n')
    assert read_pipeline(file).name == "other"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.toml has 0 jobs; accepted: 1 to 50"),
        ("jobs = 3", r"p.toml: jobs cannot be 3; accepted: tables \[jobs.NAME\]"),
        ("[jobs]\na = 3", "p.toml: job 'a' is no table; accepted: a table"),
        ("[jobs]", "has 0 jobs; accepted: 1 to 50"),
        ("[jobs", "p.toml is no pipeline .*accepted: a table"),
        ("[jobs.a]", "p.toml: job 'a' has no app; accepted: a file in quotes"),
        ('[jobs.a]\napp = ""', "app '' of job 'a' is no application"),
        ('[jobs.a]\napp = "--force"', "app '--force' of job 'a' is no application"),
        ('[jobs.a]\napp = "a.py"\ndeadline = "9s"', "job 'a' has a key 'deadline' that means nothing; the nearest"),
        (
            '[jobs.a]\napp = "a.py"\naftre = ["b"]',
            "job 'a' has a key 'aftre' that means nothing; the nearest names are after, ",
        ),
        ('until = "9s"\n[jobs.a]\napp = "a.py"', "p.toml has a key 'until' that means nothing; the nearest names are "),
        ('[jobs.a]\napp = "a.py"\nargs = "x"', "job 'a': args cannot be 'x'; accepted: a list of words in quotes"),
        ('[jobs.a]\napp = "a.py"\npriority = [1]', r"job 'a': priority cannot be \[1\]; accepted: low, normal or high"),
        ('by = 07:00:00\n[jobs.a]\napp = "a.py"', "p.toml: by cannot be .*; accepted: a time or a duration in quotes"),
        ('name = ""\n[jobs.a]\napp = "a.py"', "name '' is no name"),
        ('[jobs.b]\napp = "a.py"\n[jobs.a]\napp = "a.py"\nafter = ["b", "b"]', "job 'a' is after one job twice"),
        ('[jobs."a b"]\napp = "a.py"', "job 'a b' is no name"),
        ('name = "a/b"\n[jobs.a]\napp = "a.py"', "name 'a/b' is no name"),
        ('[jobs.a]\napp = "a.py"\nafter = ["b"]', "job 'a' is after 'b', which is no job; accepted: a"),
        ('[jobs.a]\napp = "a.py"\nafter = ["b"]\n[jobs.b]\napp = "b.py"\nafter = ["a"]', "is a circle"),
    ],
)
def test_what_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse(text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(BadInput, match=r"cannot be read \((No such file or directory|Is a directory)\)"):
            read_pipeline(path)
