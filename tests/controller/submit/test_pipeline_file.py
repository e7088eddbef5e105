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
        ("", "p.toml is no pipeline .*jobs"),
        ("[jobs]", "has 0 jobs; accepted: 1 to 50"),
        ("[jobs", "p.toml is no pipeline .*accepted: a table"),
        ("[jobs.a]", "missing required field `app`"),
        ('[jobs.a]\napp = ""', "app '' of job 'a' is no application"),
        ('[jobs.a]\napp = "--force"', "app '--force' of job 'a' is no application"),
        ('[jobs.a]\napp = "a.py"\ndeadline = "9s"', "unknown field `deadline`"),
        ('until = "9s"\n[jobs.a]\napp = "a.py"', "unknown field `until`"),
        ('[jobs.a]\napp = "a.py"\nargs = "x"', "Expected `array`, got `str`"),
        ('by = 07:00:00\n[jobs.a]\napp = "a.py"', "Expected `str"),
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
        with pytest.raises(BadInput, match="cannot be read"):
            read_pipeline(path)
