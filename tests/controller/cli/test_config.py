"""`sparkpace.toml`: where it is found, what is refused, that the command line wins, what `config check` says, and what the
master gets of limits of users."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given as generated
from hypothesis import strategies as st

from controller.asks.user_limits import UserLimits
from controller.cli.config import CONFIGURED, config_option, find_config, options_of
from controller.cli.main import main
from controller.cli.master_options import MASTER
from controller.cli.service_option import values_of
from controller.cli.services import agent, master
from controller.cli.up import up
from controller.cli.user_tables import checked_users, user_texts
from controller.cli.worker_words import _of_one_source
from controller.home import Home
from stage_model.errors import BadInput
from tests.fakes.commands import assert_refused, run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Provide a home that does not exist yet, with a working directory next to it."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPARKPACE_CONFIG", raising=False)
    return Home(tmp_path / "home")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


BAD = {
    '[up]\nlaws = "paper"': ["[up]", "'laws'", " law, "],
    '[up]\nhome = "/x"': ["[up]", "'home'"],
    '[up]\nconfig = "/x"': ["[up]", "'config'"],
    '[agent]\ntoken = "s3cret"': ["[agent]", "'token'"],
    '[ups]\nlaw = "paper"': ["'ups'", " up, "],
    "up = 3": ["[up]"],
    '[up]\nworkers = "3"': ["[up] workers", "'3'"],
    "[up]\nworkers = 2.5": ["[up] workers", "2.5"],
    "[up]\nworkers = true": ["[up] workers", "True"],
    "[up]\nworkers = 0": ["[up] workers: 0", "1 to 64"],
    '[up]\ntopology = ""': ["[up] topology: ", "empty"],
    '[up]\nallow-mount = [""]': ["[up] allow-mount: ", "empty"],
    '[agent]\nmaster = "https://[::1]:99999"': ["[agent] master: ", "'https://[::1]:99999'"],
    '[up]\nlaw = "fair"': ["[up] law: 'fair'", "'paper', 'forecast', 'constant'"],
    "[up]\nfloor = nan": ["[up] floor: nan", "0.05"],
    '[up]\nperiod = "5ms"': ["[up] period: --period '5ms'", "200ms"],
    "[up]\nperiod = 1": ["[up] period is 1;"],
    '[up]\nallow-mount = "/data"': ["[up] allow-mount is '/data'"],
    "[up]\nallow-mount = [1]": ["[up] allow-mount is [1]"],
    '[up]\nshared = "yes"': ["[up] shared is 'yes'", "true"],
    '[up]\nworker = ["cores=1"]': ["[up] worker: --worker 'cores=1'", "memory"],
    '[master]\nidle = "soon"': ["[master] idle: --idle 'soon'"],
    '[agent]\nlabels = "zone"': ["[agent] labels: --labels 'zone'"],
    # limits of users
    "users = 3": ["[users.NAME]"],
    "[users]\ncores = 2": ["[users]", "'cores'", "[users.NAME]"],
    "[users.root]": ["[users.root]", "'root'", "cores"],
    "[users.no-such-user]\ncores = 2": ["[users.no-such-user]", "'no-such-user'", "default"],
    "[users.root]\ncore = 2": ["[users.root]", "'core'", "cores"],
    '[users.root]\npriority = "urgent"': ["[users.root] priority 'urgent'", "high"],
    "[users.root]\ncores = 0": ["[users.root] cores '0'", "4096"],
    "[users.root]\ncores = true": ["[users.root] cores 'True'"],
    '[users.root]\nmemory = "much"': ["[users.root] memory 'much'", "2g"],
    "[users.root]\napplications = 0": ["[users.root] applications '0'", "1 to"],
    "[users.root]\napplications = 1.5": ["[users.root] applications '1.5'"],
    f"[users.root]\nmemory = 0x{'f' * 5000}": ["[users.root]", "very large"],
    "[users.root]\ncores = 1\n[users.0]\ncores = 2": ["[users]", "'root'", "'0'"],
    "[up]\nworkers = 1\n[users.root]\ncores = 0": ["[users.root] cores"],
    '[up]\nuser-limits = ["root cores=1"]\n[users.root]\ncores = 2': ["[up] --user-limits", "'root'"],
    # what goes together
    '[up]\nallow-mount = ["/no/such"]': ["[up] --allow-mount /no/such"],
    '[up]\nworkers = 2\nworker = ["cores=1 memory=1g"]': ["[up] --worker ", "--workers"],
    '[master]\nprovider = "command"': ["[master] ", "--provider-command"],
    '[agent]\nworker-id = "w"\ncores = 1\nmemory = "1g"\nruntime = "process"\nmaster = "https://h:1"\nnodes = 2': [
        "[agent] ",
        "--nodes",
    ],
}


@pytest.mark.parametrize(("text", "named"), BAD.items())
def test_check_says_what_is_wrong(home: Home, text: str, named: list[str]) -> None:
    file = written(home.path.parent / "some.toml", text)
    done = run("config", "check", str(file))
    assert_refused(done, 2, f"sparkpace: {file}: ", *named)
    assert done.stderr.count("\n") == 1
    assert "s3cret" not in done.stderr
    assert not home.path.exists()


def test_check_says_everything_that_is_wrong(home: Home) -> None:
    file = written(home.path.parent / "some.toml", '[up]\nworkers = 0\nlaws = "x"\n[master]\nport = 0\n')
    assert len(run("config", "check", str(file)).stderr.splitlines()) == 3
    assert_refused(run("up", "--config", str(file)), 2, " 1 more", "`sparkpace config check`")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[up\n", "Expected ']'"),
        (b"\xff\xfe", ""),
        (b"a = " + b"[" * 100_000, ""),
        (b"a = " + b"9" * 10_000, ""),
        (b"# " + b"x" * (1 << 20), "1 MB"),
    ],
)
def test_what_is_no_toml_is_refused(home: Home, content: bytes, why: str) -> None:
    file = written(home.path.parent / "some.toml", "")
    file.write_bytes(content)
    for words in (["config", "check", str(file)], ["up", "--config", str(file)]):
        assert_refused(run(*words), 2, file, why)


def test_a_right_file_is_right(home: Home) -> None:
    file = written(
        home.path.parent / "some.toml",
        '[up]\nworkers = 1\nshared = false\nfloor = 0.1\n[master]\nport = 7171\n[agent]\nruntime = "process"\ncores = 2\n',
    )
    done = run("config", "check", str(file))
    assert done.exit_code == 0, done.output
    right, unchecked = done.stdout.splitlines()
    assert right.startswith(f"{file}: ")
    assert "[agent] leaves worker-id, memory, master " in unchecked


def test_what_a_check_found_is_json_too(home: Home) -> None:
    file = written(home.path.parent / "some.toml", "[agent]\ncores = 2\nfloor = 2\n")
    done = run("config", "check", "--output", "json", str(file))
    assert (done.exit_code, done.stderr) == (2, "")
    found = json.loads(done.stdout)
    assert (found["file"], len(found["wrong"]), len(found["unchecked"])) == (str(file), 1, 1)
    assert "[agent] floor: 2" in found["wrong"][0]
    written(file, "")
    done = run("config", "check", "--output", "json", str(file))
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"file": str(file), "wrong": [], "unchecked": []})


def test_the_file_is_the_one_that_is_named_else_the_homes(home: Home) -> None:
    named, of_home = written(home.path.parent / "a.toml", ""), written(home.config_file, "")
    variable = {"SPARKPACE_CONFIG": str(of_home)}

    def found(*arguments: Path | dict[str, str] | None) -> Path | None:
        known = find_config(arguments[0], home, arguments[1])  # type: ignore[arg-type]
        return known and known[0]

    assert found(named, variable) == named
    assert found(None, {"SPARKPACE_CONFIG": str(named)}) == named
    assert found(None, {}) == of_home
    assert found(None, {"SPARKPACE_CONFIG": ""}) is None
    of_home.unlink()
    assert found(None, {}) is None
    with pytest.raises(BadInput, match=r"home/sparkpace.toml .*SPARKPACE_CONFIG"):
        found(None, variable)


def test_one_in_the_working_directory_is_not_read(home: Home) -> None:
    written(Path("sparkpace.toml"), "[up]\nworkers = 0\n")
    assert "workers" not in run("config", "check").stderr
    assert_refused(run("config", "check", "sparkpace.toml"), 2, "workers: 0")


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_a_file_that_others_may_change_is_refused(home: Home, mode: int) -> None:
    file = written(home.config_file, "[up]\nworkers = 2\n")
    file.chmod(mode)
    assert_refused(run("up"), 2, file, f"{mode:04o}")


def test_a_file_that_others_may_replace_is_refused(home: Home) -> None:
    file = written(home.config_file, "[up]\nworkers = 2\n")
    link = home.path.parent / "work" / "link.toml"
    link.symlink_to(file)
    for folder, mode, words in ((home.path, 0o777, []), (home.path, 0o775, [str(link)]), (link.parent, 0o777, [str(link)])):
        folder.chmod(mode)
        assert_refused(run("config", "check", *words), 2, folder, f"0{mode:o}")
        folder.chmod(0o1777)
        assert run("config", "check", *words).exit_code == 0, "there, each may replace their own files"


def test_the_commands_take_what_their_table_says(home: Home) -> None:
    written(home.config_file, '[up]\nperiod = "5ms"\n[master]\nname = ["a b"]\n[agent]\nfloor = 2\n')
    for command, said in (("up", "--period '5ms'"), ("master", "--name 'a b'"), ("agent", "[agent] floor")):
        assert_refused(run(command), 2, f"{home.config_file}: ", said)


def given(*words: str, table: str = "") -> dict[str, object]:
    """Call a command with some options; return what it is called with."""
    seen: dict[str, object] = {}

    @click.command("up")
    @click.option("--home", is_eager=True, callback=lambda *_: Home(Path.cwd()))
    @config_option
    @click.option("--workers", type=int, default=2)
    @click.option("--topology", type=click.Path(path_type=Path))
    @click.option("--name", "names", multiple=True)
    @click.option("--shared", is_flag=True)
    def command(home: Home, **options: object) -> None:
        seen.update(options)

    written(Path("sparkpace.toml"), f"[up]\n{table}")
    done = CliRunner().invoke(command, list(words))
    assert done.exit_code == 0, done.output
    return seen


def test_the_command_line_wins(home: Home) -> None:
    table = 'workers = 5\nname = ["a", "b"]\nshared = true\ntopology = "racks"\n'
    there = {"workers": 5, "names": ("a", "b"), "shared": True, "topology": Path.cwd() / "racks"}
    assert given(table=table) == there
    assert given("--workers", "3", "--name", "c", table=table) == {**there, "workers": 3, "names": ("c",)}
    assert given("--workers", "3", table="") == {"workers": 3, "names": (), "shared": False, "topology": None}


@pytest.mark.parametrize(
    ("table", "words", "each"),
    [
        ({"workers": 3}, ["--worker", "cores=1 memory=1g"], ("cores=1 memory=1g",)),
        ({"each": ["cores=1 memory=1g"]}, ["--workers", "3"], ()),
        ({"each": ["cores=1 memory=1g"]}, [], ("cores=1 memory=1g",)),
        ({"each": ["cores=1 memory=1g"], "workers": 3}, [], None),
        ({}, ["--worker", "cores=1 memory=1g", "--workers", "3"], None),
    ],
)
def test_workers_are_counted_or_described_by_who_said_it_last(
    home: Home, table: dict[str, object], words: list[str], each: tuple[str, ...] | None
) -> None:
    with up.make_context("up", words, default_map=table) as context:
        if each is None:
            with pytest.raises(BadInput, match="without --workers"):
                _of_one_source(context, context.params["each"])
        else:
            assert _of_one_source(context, context.params["each"]) == each


def test_every_option_of_the_services_has_a_name_in_the_file() -> None:
    context = click.Context(main)
    for name in CONFIGURED:
        command = main.get_command(context, name)
        assert command is not None
        shown = {one.opts[-1] for one in command.params if isinstance(one, click.Option)}
        assert shown - {f"--{key}" for key in options_of(command)} == {"--home", "--config"}


# ---------------------------------------------------------------- limits of users

FILE = """
[users.default]
priority = "normal"
applications = 3

[users.root]
cores = 2.5
memory = "4g"
"""
LIMITS = (UserLimits("default", None, priority=50, applications=3), UserLimits("root", 0, cores=2.5, memory_mb=4096))


@pytest.fixture
def file(home: Home) -> Path:
    return written(home.path.parent / "limits.toml", FILE)


def users(file: Path, *words: str) -> object:
    with master.make_context("master", ["--config", str(file), *words]) as context:
        return values_of(MASTER, context.params)["users"]


def test_the_master_gets_the_limits_of_the_file_and_those_of_its_table(file: Path) -> None:
    assert users(file) == LIMITS
    file.write_text(f'{FILE}\n[master]\nuser-limits = ["7 applications=1"]\n')
    assert users(file) == (UserLimits("7", 7, applications=1), *LIMITS)
    assert run("config", "check", str(file)).exit_code == 0


def test_limits_of_the_command_line_win(file: Path) -> None:
    assert users(file, "--user-limits", "default cores=1") == (UserLimits("default", None, cores=1.0),)


def test_up_takes_the_limits_and_an_agent_does_not_look_at_them(file: Path) -> None:
    with up.make_context("up", ["--config", str(file)]) as context:
        assert checked_users(context.params["users"], option="--user-limits") == LIMITS
    file.write_text("[users.no-such-user]\ncores = 2\n")
    assert_refused(run("up", "--config", str(file)), 2, file, "'no-such-user'")
    words = ["--worker-id", "w1", "--cores", "1", "--memory", "1g", "--runtime", "process", "--master", "https://127.0.0.1:1"]
    with agent.make_context("agent", [*words, "--config", str(file)]) as context:
        assert "users" not in context.params


@generated(
    st.fixed_dictionaries(
        {},
        optional={
            "priority": st.integers(0, 100),
            "cores": st.floats(0.01, 4096).map(lambda cores: round(cores, 2)),
            "memory": st.integers(1, 2**30),
            "applications": st.integers(1, 1_000_000),
        },
    ).filter(bool)
)
def test_what_a_table_says_is_what_the_option_says(table: dict[str, float]) -> None:
    texts, wrong = user_texts({"users": {"root": table}})
    assert wrong == []
    [limits] = checked_users(texts, option="--user-limits")
    found = (limits.priority, limits.cores, limits.memory_mb, limits.applications)
    assert found == tuple(table.get(key) for key in ("priority", "cores", "memory", "applications"))
