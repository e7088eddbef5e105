"""The pages say what the code does, where that can be compared."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

from controller.agent.executors.secret_places import CREDENTIAL_PLACES, ENGINE, SPARKPACE_HOME
from controller.asks.job_options import SETTINGS
from controller.cli.groups import WHOLE_SENTENCE
from controller.cli.main import COMMANDS, main
from controller.cli.master_options import MASTER_AND_GROWTH
from controller.cli.service_options import AGENT, UP
from controller.master.calls import CALLS
from controller.master.core.life import MOVES
from controller.master.metric_table import METRICS
from controller.wire.states import Outcome
from stage_model.laws import LAWS
from stage_model.settings import Topic, rules

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "bridge" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
SETTING = re.compile(r"`(spark\.pace\.[A-Za-z.]*[A-Za-z])\b(?!\.?\*)")
SOURCES = ("stage_model", "placement", "master_memory", "controller", "experiments", "tests", "bridge", "dockerfiles", "docs")
CITED = re.compile(r"(?:\w[\w.-]*/)*\w[\w.-]*\.md\b")
SHOWN_BY = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
SYMPTOM = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)
PLACE = re.compile(r"\b[A-Z_]+\b|\.\.\.")
"""A name or number of a sentence in the guide to troubleshooting."""


@pytest.mark.parametrize("name", LAWS)
def test_tables_of_settings_are_those_of_the_code(name: str) -> None:
    topic = LAWS[name].settings
    heading = f"<!-- {topic.__name__}, from stage_model/laws/{name}.py -->\n"
    _, _, after = (ROOT / "docs" / "control.md").read_text().partition(heading)
    assert after.partition("\n\n")[0].rstrip("\n") == table(topic)


def table(topic: type[Topic]) -> str:
    lines = ["| key | default | accepted | why |", "| --- | --- | --- | --- |"]
    defaults = topic()
    for name, rule in rules(topic):
        lines.append(f"| `{topic.PREFIX}{rule.name}` | {getattr(defaults, name):g} | {rule.accepted} | {rule.reason} |")
    return "\n".join(lines)


def test_the_diagram_of_an_applications_life_is_the_table_of_the_code() -> None:
    _, _, after = (ROOT / "docs" / "concepts.md").read_text().partition("```mermaid\nstateDiagram-v2\n")
    drawn = [line.strip() for line in after.partition("```")[0].splitlines()]
    assert sorted(drawn) == sorted(f"{before or '[*]'} --> {to}: {event}" for (before, to), event in MOVES.items())


def test_every_test_that_shows_what_is_enforced_is_there() -> None:
    _, _, enforced = (ROOT / "docs" / "security.md").read_text().partition("## What is enforced")
    named = SHOWN_BY.findall(enforced.partition("## What is not")[0])
    assert len(named) > 20
    for path, name in named:
        text = (ROOT / "tests" / path).read_text()
        assert re.search(rf"^(?:def|class) {name}\b" if name else "^def test_", text, re.MULTILINE), (path, name)


def test_every_call_of_the_master_is_described() -> None:
    described = re.findall(r"^\| `([A-Z]+) (/[^`?]*)", (ROOT / "docs" / "protocol.md").read_text(), re.MULTILINE)
    assert sorted((call.method, call.path) for call in CALLS) == sorted(described)


def test_every_setting_that_is_described_is_one() -> None:
    laws = {law.settings.PREFIX + rule.name for law in LAWS.values() for _, rule in rules(law.settings)}
    described = {key for page in PAGES for key in SETTING.findall(page.read_text())}
    assert len(described) > 20
    assert sorted(described - {setting.key for setting in SETTINGS.values()} - laws) == []


def test_the_table_of_an_applications_settings_is_that_of_the_code() -> None:
    rows = [
        f"| `{one.key}` | {'' if one.ours or not one.shown else f'`{one.shown}`'} | {one.help} |"
        for one in sorted(SETTINGS.values(), key=lambda one: one.ours)
    ]
    _, _, after = (REFERENCE / "settings.md").read_text().partition("| key | option of `submit` | meaning |\n")
    assert after.partition("\n\n")[0].replace("\\|", "|").splitlines()[1:] == rows


def test_the_table_of_the_services_options_is_that_of_the_code() -> None:
    rows = []
    for command, options in {"up": UP, "agent": AGENT, "master": MASTER_AND_GROWTH}.items():
        for one in options:
            choices = f" {'|'.join(map(str, one.kind.choices))}" if isinstance(one.kind, click.Choice) else ""
            default = "" if one.default in (None, "") else f"`{one.default}`"
            of = f"`{command}`, `up`" if one.up and command != "up" else f"`{command}`"
            rows.append(f"| `--{one.name}{choices}` | {of} | {default} | {one.help} |")
    _, _, after = (REFERENCE / "services.md").read_text().partition("| option | of | default | meaning |\n")
    assert after.partition("\n\n")[0].replace("\\|", "|").splitlines()[1:] == rows


def test_everything_that_executors_do_not_see_is_described() -> None:
    _, _, after = (REFERENCE / "executors.md").read_text().partition("## What it does not see\n")
    table = after.partition("\n\nThe last five")[0]
    assert [name for name in (SPARKPACE_HOME, *CREDENTIAL_PLACES) if f"`{name}`" not in table] == []
    assert [path for path in ENGINE if f"`{Path(path).name}`" not in table] == []


def test_the_table_of_commands_is_that_of_the_code() -> None:
    context = click.Context(main)
    commands = [(name, main.get_command(context, name)) for name in COMMANDS]
    rows = [f"| `sparkpace {name}` | {one.get_short_help_str(WHOLE_SENTENCE)} |" for name, one in commands if one is not None]
    _, _, after = (REFERENCE / "commands.md").read_text().partition("| command | what it does |\n")
    assert after.partition("\n\n")[0].splitlines()[1:] == rows


def test_every_symptom_is_a_sentence_of_the_code() -> None:
    said = sentences_of_the_code()
    cells = SYMPTOM.findall((ROOT / "docs" / "guides" / "troubleshooting.md").read_text())
    symptoms = [symptom for cell in cells for symptom in re.findall(r"`([^`]+)`", cell)]
    assert len(symptoms) > 40
    assert [one for one in symptoms if any(part.strip() not in said for part in PLACE.split(one))] == []


def sentences_of_the_code() -> str:
    """Return all texts of the product, each on lines of its own, without the marks of code in them."""
    trees = [ast.parse(file.read_text()) for folder in SOURCES[:4] for file in (ROOT / folder).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    bridge = [re.sub(r'"\s*\+\s*"', "", file.read_text()) for file in (ROOT / "bridge").rglob("*.java")]
    return "\n".join([*texts, *bridge]).replace("`", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if not link.startswith(("http://", "https://"))]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_that_is_cited_is_there() -> None:
    files = [
        file for folder in SOURCES for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".java", ".md", ".toml")
    ]
    files += [file for file in ROOT.iterdir() if file.suffix in (".md", ".toml") or file.name == "Makefile"]
    there = {f"/{file.relative_to(ROOT)}" for file in files if file.suffix == ".md"}
    cited = {(str(file.relative_to(ROOT)), page) for file in files for page in CITED.findall(file.read_text())}
    assert len({page for _, page in cited}) > 20
    assert sorted((file, page) for file, page in cited if not any(one.endswith(f"/{page}") for one in there)) == []


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = [f"| `{one.shown}` | {one.kind} | {', '.join(one.labels)} | {one.meaning} |" for one in METRICS]
    _, _, table = (ROOT / "docs" / "metrics.md").read_text().partition("| --- | --- | --- | --- |\n")
    assert table.partition("\n\n")[0].splitlines() == rows


def test_every_outcome_is_explained() -> None:
    _, _, table = (ROOT / "docs" / "metrics.md").read_text().partition("## Outcomes\n")
    assert re.findall(r"^\| `(\w+)` \| [a-z]", table, re.MULTILINE) == list(Outcome)
