"""`sparkpace.toml`: where it is found, what is refused, that the command line wins, and what `config check` says."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from controller.cli.config import CONFIGURED, config_option, find_config, options_of
from controller.cli.main import main
from controller.cli.up import _of_one_source, up
from controller.home import Home
from stage_model.errors import BadInput


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Provide a home that does not exist yet, with a working directory next to it."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SPARKPACE_CONFIG", raising=False)
    return Home(tmp_path / "home")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="sparkpace")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


BAD = [
    ('[up]\nlaws = "paper"', "[up] has 'laws', which is no option; the nearest names are law, "),
    ('[up]\nhome = "/x"', "[up] has 'home', which is no option"),
    ('[up]\nconfig = "/x"', "[up] has 'config', which is no option"),
    ('[agent]\ntoken = "s3cret"', "[agent] has 'token', which is no option"),
    ('[ups]\nlaw = "paper"', "'ups' is no table of it; the nearest names are up, "),
    ("up = 3", "up is no table; write [up], with options below"),
    ('[up]\nworkers = "3"', "[up] workers is '3'; accepted: a whole number"),
    ("[up]\nworkers = 2.5", "[up] workers is 2.5; accepted: a whole number"),
    ("[up]\nworkers = true", "[up] workers is True; accepted: a whole number"),
    ("[up]\nworkers = 0", "[up] workers: 0 cannot be taken; accepted: a whole number, 1 to 64"),
    ('[up]\nhost = ""', "[up] host: --host '' is no address"),
    ('[up]\ntopology = ""', "[up] topology: an empty path names nothing"),
    ('[up]\nallow-mount = [""]', "[up] allow-mount: an empty path names nothing"),
    ("[up]\ncores = nan", "[up] cores: nan cannot be taken; accepted: cores, 0.05 or more"),
    ("[up]\nutilisation = nan", "[up] utilisation: nan cannot be taken; accepted: a part, 0.05 to 1"),
    ('[agent]\nmaster = "https://[::1]:99999"', "[agent] master: master URL 'https://[::1]:99999' is not usable (Port"),
    ('[up]\nlaw = "fair"', "[up] law: 'fair' is not one of 'paper', 'forecast', 'constant'."),
    ("[up]\nfloor = nan", "[up] floor: nan cannot be taken; accepted: cores, 0.05 to 1 in steps of 0.05"),
    ('[up]\nperiod = "5ms"', "[up] period: --period '5ms' cannot be taken; accepted: 200ms to 60s"),
    ("[up]\nperiod = 1", "[up] period is 1; accepted: a string"),
    ('[up]\nallow-mount = "/data"', "[up] allow-mount is '/data'; accepted: a list of strings"),
    ("[up]\nallow-mount = [1]", "[up] allow-mount is [1]; accepted: a list of strings"),
    ('[up]\nshared = "yes"', "[up] shared is 'yes'; accepted: true or false"),
    ('[up]\nworker = ["cores=1"]', "[up] worker: --worker 'cores=1' says no memory"),
    ('[master]\nidle = "soon"', "[master] idle: --idle 'soon'"),
    ('[agent]\nlabels = "zone"', "[agent] labels: --labels 'zone'"),
    ('[agent]\nmaster = "localhost"', "[agent] master: master URL 'localhost'"),
    # what goes together
    ('[up]\nallow-mount = ["/no/such"]', "[up] --allow-mount /no/such is no directory"),
    ('[up]\nworkers = 2\nworker = ["cores=1 memory=1g"]', "[up] --worker says what each worker has"),
    ('[master]\nprovider = "command"', "[master] --provider command needs --provider-command"),
    (
        '[agent]\nworker-id = "w"\ncores = 1\nmemory = "1g"\nruntime = "process"\nmaster = "https://h:1"\nnodes = 2',
        "[agent] --runtime process has no --nodes",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_check_says_what_is_wrong(home: Home, text: str, said: str) -> None:
    file = written(home.path.parent / "some.toml", text)
    done = run("config", "check", str(file))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    [line] = done.stderr.splitlines()
    assert line.startswith(f"sparkpace: {file}: ")
    assert said in line
    assert "s3cret" not in line
    assert not home.path.exists()


def test_check_says_everything_that_is_wrong(home: Home) -> None:
    file = written(home.path.parent / "some.toml", '[up]\nworkers = 0\nlaws = "x"\n[master]\nport = 0\n')
    assert len(run("config", "check", str(file)).stderr.splitlines()) == 3
    assert "(and 1 more: `sparkpace config check` tells all)" in run("up", "--config", str(file)).stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[up\n", "cannot be read (Expected ']'"),
        (b"\xff\xfe", "cannot be read ("),
        (b"a = " + b"[" * 100_000, "cannot be read ("),
        (b"a = " + b"9" * 10_000, "cannot be read ("),
        (b"# " + b"x" * (1 << 20), "not a plain file of at most 1 MB"),
    ],
)
def test_what_is_no_toml_is_refused(home: Home, content: bytes, said: str) -> None:
    file = written(home.path.parent / "some.toml", "")
    file.write_bytes(content)
    for words in (["config", "check", str(file)], ["up", "--config", str(file)]):
        done = run(*words)
        assert done.exit_code == 2
        assert said in done.stderr
        assert str(file) in done.stderr


def test_a_right_file_is_right(home: Home) -> None:
    file = written(
        home.path.parent / "some.toml",
        '[up]\nworkers = 1\nshared = false\nfloor = 0.1\n[master]\nport = 7171\n[agent]\nruntime = "process"\ncores = 2\n',
    )
    done = run("config", "check", str(file))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        f"{file}: nothing is wrong.",
        "[agent] leaves worker-id, memory, master to the command line: what goes together is not checked.",
    ]


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
    with pytest.raises(BadInput, match=r"home/sparkpace.toml does not exist; name another by --config or SPARKPACE_CONFIG"):
        found(None, variable)


def test_one_in_the_working_directory_is_not_read(home: Home) -> None:
    written(Path("sparkpace.toml"), "[up]\nworkers = 0\n")
    done = run("config", "check")
    assert done.exit_code == 2
    assert "no configuration file was named" in done.stderr
    assert run("config", "check", "sparkpace.toml").stderr.count("workers: 0 cannot be taken") == 1


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_a_file_that_others_may_change_is_refused(home: Home, mode: int) -> None:
    file = written(home.config_file, "[up]\nworkers = 2\n")
    file.chmod(mode)
    done = run("up")
    assert done.exit_code == 2
    assert f"may be changed by others (mode {mode:04o}" in done.stderr


def test_a_file_that_others_may_replace_is_refused(home: Home) -> None:
    file = written(home.config_file, "[up]\nworkers = 2\n")
    link = home.path.parent / "work" / "link.toml"
    link.symlink_to(file)
    for folder, mode, words in (
        (home.path, 0o777, []),
        (home.path, 0o775, [str(link)]),
        (link.parent, 0o777, [str(link)]),
    ):
        folder.chmod(mode)
        done = run("config", "check", *words)
        assert done.exit_code == 2
        assert f"may be changed by others, because its folder {folder} is open to them (mode 0{mode:o}" in done.stderr
        folder.chmod(0o1777)
        assert run("config", "check", *words).exit_code == 0, "there, each may replace their own files"


def test_the_commands_take_what_their_table_says(home: Home) -> None:
    written(home.config_file, '[up]\nperiod = "5ms"\n[master]\nname = ["a b"]\n[agent]\nfloor = 2\n')
    for command, said in (("up", "--period '5ms'"), ("master", "--name 'a b'"), ("agent", "[agent] floor")):
        done = run(command)
        assert done.exit_code == 2
        assert f"{home.config_file}: " in done.stderr
        assert said in done.stderr


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
