"""Bad input of the commands: one sentence that names it, the exit code, and nothing left behind.

What is wrong is found before anything is contacted: none of these tests has a cluster, an engine or a Spark. Not covered: all
that a parser refuses (the parsers' own tests).
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.cli.main import main
from controller.home import Cluster, Home
from controller.machine.process import find_process
from controller.runs.profile_store import ProfileStore
from stage_model.history.profile import profile
from tests.fakes.records import run as record
from tests.fakes.records import stage
from tests.fakes.tls import make_ca


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a working directory with an application in it; the home next to it does not exist yet."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "app.py").write_text("raise SystemExit('never run')\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "home"))
    return work


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="sparkpace")


def assert_refused(result: Result, code: int, *said: str) -> None:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert lines[-1].startswith(("sparkpace: ", "Error: "))
    assert "Traceback" not in result.stderr
    for part in said:
        assert part in lines[-1]


def assert_nothing_left(place: Path) -> None:
    assert [path.name for path in place.parent.iterdir()] == ["work"]
    assert (place / "app.py").exists()


@pytest.mark.parametrize("deadline", ["-5s", "abc", ""])
@pytest.mark.parametrize("form", ["option", "equals", "setting"])
def test_a_bad_deadline(place: Path, deadline: str, form: str) -> None:
    words = {
        "option": ["--deadline", deadline],
        "equals": [f"--deadline={deadline}"],
        "setting": ["--conf", f"spark.pace.deadline={deadline}"],
    }
    named = "spark.pace.deadline" if form == "setting" else "--deadline"
    assert_refused(run("submit", *words[form], "app.py"), 2, named, "90s")
    assert_nothing_left(place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--law", "fair", "app.py"], ["--law", "'fair'", "forecast", "paper"]),
        (["--law", "", "app.py"], ["--law"]),
        (["--priority", "urgent", "app.py"], ["--priority", "'urgent'", "low", "high"]),
        (["--priority", "101", "app.py"], ["--priority", "'101'"]),
        (["--priority", "-1", "app.py"], ["--priority", "'-1'"]),
        (["none.py"], ["'none.py'", "does not exist"]),
        (["."], ["'.'", "is a directory", "a .py file or a jar"]),
        (["--home", "", "app.py"], ["--home is empty"]),
        (["--output", "json", "app.py"], ["--output has no meaning without --dry-run"]),
        (["--dry-run", "--output", "yaml", "app.py"], ["--output 'yaml'", "table or json"]),
        (["file:none.py"], ["does not exist"]),
        (["--deadline", "90s"], ["no application file"]),
        (["--mount", "/no/such/path", "app.py"], ["--mount", "/no/such/path"]),
        (["--mount", ".:rx", "app.py"], ["--mount", "PATH:ro"]),
        (["--num-executors", "0", "app.py"], ["--num-executors", "'0'"]),
        (["--executor-cores", "two", "app.py"], ["--executor-cores", "'two'"]),
        (["--deploy-mode", "cluster", "app.py"], ["--deploy-mode 'cluster'"]),
        (["--deploy-mode", "banana", "app.py"], ["--deploy-mode 'banana'", "accepted: client"]),
        (
            ["--master", "k8s://https://h", "--deploy-mode", "cluster", "app.py"],
            ["--deploy-mode", "spark-submit with the settings of `sparkpace conf --attach --kubernetes`"],
        ),
        (["--master", "local[1]", "app.py"], ["--master", "'local[1]'", "spark://HOST:PORT"]),
        (["--master", "yarn", "--mount", ".", "app.py"], ["--mount", "without --master"]),
        (["--master", "yarn", "--conf", "spark.pace.placement.labels=a=b", "app.py"], ["spark.pace.placement.labels"]),
        (["--conf", "spark.master=local", "app.py"], ["spark.master"]),
        (["--conf", "spark.pace.law.paper.nonsense=1", "app.py"], ["spark.pace.law.paper.nonsense"]),
        (["--image", "", "app.py"], ["--image"]),
        (["--network", "open", "app.py"], ["--network", "'open'", "closed"]),
        (["--conf", "spark.pace.network=host", "app.py"], ["network", "'host'", "closed"]),
        (["--nonsense", "app.py"], ["'--nonsense'"]),
        (["--exec=now", "app.py"], ["--exec takes no value", "'now'"]),
        (["--dedline=90s", "app.py"], ["'--dedline=90s'", "the nearest names are --deadline, "]),
        (["--by", "90s", "app.py"], ["--by without --pipeline has no meaning"]),
        (["--pipeline", "a b", "app.py"], ["--pipeline", "'a b'", "is no name"]),
        (["--pipeline", "p", "--by", "soon", "app.py"], ["--by", "'soon'", "90s"]),
        (["--pipeline", "p", "--by", "", "app.py"], ["--by is empty"]),
        (["--pipeline", "p", "--by", "90s", "--deadline", "80s", "app.py"], ["--deadline and --by exclude each other"]),
        (["--pipeline", "p", "--by", "90s", "--conf", "spark.pace.deadline=80s", "app.py"], ["spark.pace.deadline and --by"]),
        (["--after", "x:failed", "app.py"], ["--after", "'x:failed'", "ID:success"]),
        (["--conf", "spark.pace.placement.policy=best", "app.py"], ["'best'", "spread", "smooth-wrr"]),
        (["--conf", "spark.pace.placement.labels=a==b", "app.py"], ["'a==b'", "NAME!=VALUE"]),
        (["--conf", "spark.pace.placement.resources=gpu=1.5", "app.py"], ["gpu=1.5", "a fraction below 1"]),
        (["--conf", "spark.pace.placement.resources=gpu=-1", "app.py"], ["gpu=-1", "0 or more"]),
        (["--conf", "spark.pace.placement.nonsense=1", "app.py"], ["spark.pace.placement.nonsense"]),
    ],
)
def test_other_bad_options_of_submit(place: Path, arguments: list[str], said: list[str]) -> None:
    assert_refused(run("submit", *arguments), 2, *said)
    assert_nothing_left(place)


def test_an_end_of_a_pipeline_in_the_past(place: Path) -> None:
    assert_refused(run("submit", "--pipeline", "p", "--by", "2001-01-01T00:00", "app.py"), 2, "--by", "is in the past")
    assert_nothing_left(place)


@pytest.mark.parametrize("content", ["not JSON", "[]", "{}", '{"version": 999, "schema": 999}', "\x00\x01"])
@pytest.mark.parametrize("command", ["submit", "plan"])
def test_a_bad_profile_file(place: Path, content: str, command: str) -> None:
    (place / "bad.json").write_text(content)
    application = ["app.py"] if command == "submit" else []
    assert_refused(run(command, "--profile", "bad.json", *application), 2, "bad.json")
    assert_nothing_left(place)


def test_a_missing_profile_file(place: Path) -> None:
    assert_refused(run("submit", "--profile", "no/such.json", "app.py"), 2, "--profile", "no/such.json")
    assert_refused(run("plan", "--profile", "no/such.json"), 2, "--profile", "no/such.json")
    assert_nothing_left(place)


@pytest.mark.parametrize(
    "arguments",
    [["submit", "app.py"], ["submit", "--dry-run", "app.py"], ["plan", "--profile", "p"], ["ps"], ["top"], ["kill", "last"]],
)
def test_commands_without_a_cluster(place: Path, arguments: list[str]) -> None:
    assert_refused(run(*arguments), 69, "no local cluster", "sparkpace up")
    assert_nothing_left(place)


@pytest.mark.parametrize("command", [["report", "last"], ["plot", "last", "-o", "f.png"], ["logs", "app-1"]])
def test_records_that_are_not_there(place: Path, command: list[str]) -> None:
    assert_refused(run(*command), 2, command[1])
    assert_nothing_left(place)


def test_down_without_a_cluster_is_no_error(place: Path) -> None:
    assert run("down").exit_code == 0
    assert_nothing_left(place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "0"], ["--workers"]),
        (["--runtime", "podman"], ["--runtime"]),
        (["--cores", "0"], ["--cores"]),
        (["--cores", "nan"], ["--cores", "'nan' cannot be taken; accepted: cores, 0.05 or more"]),
        (["--cores", ""], ["--cores", "accepted: cores, 0.05 or more"]),
        (["--cores", "100000"], ["--cores"]),
        (["--memory", "lots"], ["--memory"]),
        (["--memory", "1m"], ["--memory"]),
        *((["--period", text], ["--period", f"'{text}'", "accepted: 200ms to 60s"]) for text in ("5ms", "abc", "61s", "")),
        *((["--floor", one], ["--floor", f"'{one}'", "0.05 to 1 in steps of 0.05"]) for one in ("0", "2", "nan", "0.07", "")),
        *((["--local-limit", text], ["--local-limit", "1% to 99%, or none"]) for text in ("abc", "0", "0%", "")),
        (["--cores", "0.15", "--workers", "2"], ["--cores", "0.1 core"]),
        (["--name", "no name"], ["--name", "'no name'", "a host's name"]),
        *((["--notify", url], ["--notify", "accepted: https://HOST"]) for url in ("", "hooks.example")),
        (["--notify", "@nowhere"], ["--notify @nowhere", "there is no file nowhere; give @FILE with https://HOST"]),
        (["--notify", "@/"], ["--notify /", "is not a plain file"]),
        (["--notify", "@"], ["--notify @ names no file"]),
        *((["--port", text], ["--port", "a whole number, 0 to 65535"]) for text in ("70000", "http", "", "1.5")),
        (["--host", ""], ["--host ''", "an IP address or a host's name"]),
        (["--host", "999.1.1.1"], ["--host '999.1.1.1'", "an IP address or a host's name"]),
        (["--network", "bridge"], ["--network", "'open'", "'closed'", "'host'"]),
        (["--network-pool", "10.0.0.1/8"], ["--network-pool", "'10.0.0.1/8'", "10.201.0.0/16"]),
        (["--driver-host", "192.0.2.77"], ["--driver-host", "'192.0.2.77'", "not an address of this machine"]),
        (["--driver-host", "localhost"], ["--driver-host", "an IPv4 address"]),
        (["--allow-mount", "/no/such/root"], ["--allow-mount", "/no/such/root"]),
        (["--law", "fair"], ["--law"]),
        (["--keep-runs", "0"], ["--keep-runs"]),
        (["--worker", "cores=1"], ["--worker", "no memory", "cores=0.8 memory=6g"]),
        (["--worker", "cores=1 memory=2g size=3"], ["'size=3'"]),
        (["--worker", "cores=-1 memory=2g"], ["--worker cores", "'-1'"]),
        (["--worker", "cores=0.5 memory=2g labels=zone"], ["--worker labels", "'zone'", "NAME=VALUE"]),
        (["--worker", "cores=0.5 memory=2g resources=gpu=0.5"], ["--worker resources", "gpu=0.5", "whole pieces"]),
        (["--worker", "cores=0.5 memory=2g id=W!"], ["--worker-id"]),
        (["--worker", "cores=0.5 memory=2g host=a/b"], ["--host", "'a/b'"]),
        (["--worker", "cores=0.5 memory=1g id=x", "--worker", "cores=0.5 memory=1g id=x"], ["one worker twice"]),
        (["--worker", "cores=0.5 memory=1g", "--workers", "2"], ["without --workers"]),
        (["--worker", "cores=4096 memory=1g"], ["--worker w1: 4096 cores", "cores and 512 to"]),
        (["--placement", "best"], ["--placement", "'spread'"]),
        (["--provider", "docker", "--grow-up-to", "cores=1 memory=2g labels=a=b"], ["--grow-up-to", "has labels"]),
        (["--provider", "docker", "--agent-options", "--labels a=b"], ["--agent-options has --labels"]),
        (["--provider", "docker", "--usual-worker", "cores=1 memory=256m"], ["--usual-worker memory=256m", "512m or more"]),
        (
            ["--provider", "docker", "--usual-worker", "cores=2 memory=1g", "--grow-up-to", "cores=1 memory=2g"],
            ["--usual-worker", "more than may be started (1 cores, 2048 MiB, no resources in all)"],
        ),
        (["--placement-weights", "data=-1"], ["'data=-1'", "0 to 1000"]),
        (["--placement-weights", "cpu=0.5,gpu=0.7"], ["do not sum to 1"]),
        (["--topology", "none.txt"], ["--topology", "none.txt", "a text file"]),
        (["--provider", "command"], ["--provider-command"]),
        (["--provider", "command", "--provider-command", "app.py"], ["--provider-command", "an executable file"]),
        (["--provider", "docker", "--provider-folder", "nowhere"], ["--provider-folder", "nowhere is no directory"]),
        (["--usual-worker", "cores=1 memory=1g"], ["--provider", "docker or command"]),
        (["--provider", "docker", "--grow-up-to", "cores=x memory=1g"], ["--grow-up-to cores", "'x'"]),
        (["--idle", "soon"], ["--idle", "'soon'"]),
        *((["--utilisation", text], ["--utilisation", "a part, 0.05 to 1"]) for text in ("0", "nan", "inf", "", "half")),
    ],
)
def test_bad_options_of_up(place: Path, arguments: list[str], said: list[str]) -> None:
    assert_refused(run("up", *arguments), 2, *said)
    assert_nothing_left(place)


@pytest.mark.parametrize(
    "words",
    [
        ["up", "--home", ""],
        ["up", "--config", ""],
        ["up", "--topology", ""],
        ["up", "--provider-command", ""],
        ["up", "--provider-folder", ""],
        ["up", "--allow-mount", ""],
        ["ps", "--home", ""],
        ["config", "check", ""],
        ["plot", "last", "-o", ""],
        ["conf", "-o", ""],
        ["plan", ""],
        ["profile", "learn", ""],
        ["shim", ""],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_working_directory(place: Path, words: list[str]) -> None:
    assert_refused(run(*words), 2, "an empty path names nothing")
    assert_nothing_left(place)


def test_up_without_a_jdk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(place))
    assert_refused(run("up", "--runtime", "process", "--port", "0"), 69, "Java", "JAVA_HOME")
    monkeypatch.setenv("JAVA_HOME", str(place))
    assert_refused(run("up", "--runtime", "process", "--port", "0"), 69, "JAVA_HOME")
    assert_nothing_left(place)


def test_up_without_a_docker_engine(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{place}/no.sock")
    assert_refused(run("up", "--runtime", "docker", "--port", "0"), 69, "no Docker engine", "--runtime process")
    assert_nothing_left(place)


def test_up_without_a_kubernetes_cluster(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place / "none"))
    pods = ("up", "--runtime", "kubernetes", "--cores", "2", "--port", "0")
    assert_refused(run(*pods), 69, "finds no cluster", "KUBECONFIG")
    assert_nothing_left(place)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runtime", "kubernetes"], ["cannot know how large the nodes are", "--cores"]),
        (["--runtime", "kubernetes", "--cores", "2", "--workers", "3"], ["wants one worker", "of its cluster"]),
        (["--runtime", "kubernetes", "--cores", "2", "--shared"], ["--runtime kubernetes has no", "--shared"]),
        (["--runtime", "kubernetes", "--cores", "2", "--signals"], ["--runtime kubernetes has no", "--signals"]),
        (["--runtime", "kubernetes", "--cores", "2", "--namespace", "A B"], ["--namespace 'A B'"]),
        (["--runtime", "adopt", "--nodes", "2"], ["--nodes", "--runtime kubernetes"]),
        (["--runtime", "process", "--namespace", "jobs"], ["--namespace", "--runtime kubernetes"]),
    ],
)
def test_options_of_pods(place: Path, arguments: list[str], said: list[str]) -> None:
    assert_refused(run("up", *arguments), 2, *said)
    assert_nothing_left(place)


def test_up_on_a_taken_port(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(run("up", "--runtime", "process", "--port", str(port)), 69, f"port {port}", "--port")
    assert_nothing_left(place)


def test_a_second_up(place: Path) -> None:
    ours = find_process(os.getpid())
    assert ours is not None
    home = Home(place.parent / "home")
    home.create()
    make_ca(home)
    home.write_cluster(
        Cluster(cluster_id="c", url="https://127.0.0.1:1", host="127.0.0.1", port=1, runtime="process", master=ours)
    )
    before = sorted(home.path.iterdir())
    assert_refused(
        run("up", "--law", "paper", "--port", "0"), 2, "already runs", "another --law and --port", "sparkpace down"
    )
    assert sorted(home.path.iterdir()) == before


def test_a_token_file_that_others_can_read(place: Path) -> None:
    test_a_second_up(place)
    home = Home(place.parent / "home")
    home.submit_token_file.chmod(0o644)
    assert_refused(run("submit", "app.py"), 77, "submit.token", "chmod 600")


def test_a_master_that_died(place: Path) -> None:
    test_a_second_up(place)
    assert_refused(run("submit", "app.py"), 69, "no Sparkpace master answers", "sparkpace up")


def test_services_refuse_before_they_start(place: Path) -> None:
    agent = ["agent", "--worker-id", "w1", "--cores", "1", "--memory", "1024", "--runtime", "process"]
    assert_refused(run(*agent, "--master", "localhost"), 2, "master URL 'localhost'", "https://")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--period", "0s"), 2, "--period")
    for cores in ("nan", "inf", "1e9"):
        assert_refused(run(*agent, "--master", "https://localhost:1", "--cores", cores), 2, "--cores")
    for port in ("99999", "x", "0"):
        assert_refused(run(*agent, "--master", f"https://127.0.0.1:{port}"), 2, "master URL", "https://127.0.0.1:7070")
    assert_refused(run(*agent, "--master", "https://[::1"), 2, "master URL", "https://127.0.0.1:7070")
    small = ("--cores", "0.5", "--floor", "0.9")
    assert_refused(run(*agent, "--master", "https://localhost:1", *small), 2, "--cores 0.5 is less than --floor 0.9")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--memory", "9999g"), 2, "--memory", "this machine")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--host", "999.1.1.1"), 2, "--host '999.1.1.1'")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--labels", "zone"), 2, "--labels", "'zone'")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--resources", "gpu=-1"), 2, "--resources", "gpu=-1")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--memory", "100m"), 2, "--memory 100m", "512m or more")
    assert_refused(run(*agent, "--master", "https://localhost:1", "--memory", "-4g"), 2, "--memory", "'-4g'")
    assert_refused(run(*agent, "--master", "http://localhost:1"), 2, "'http://localhost:1'", "https://")
    docker = [*agent[:-1], "docker"]
    assert_refused(run(*docker, "--master", "https://192.0.2.77:1"), 2, "--network open", "192.0.2.77", "--network host")
    assert_refused(run(*docker, "--master", "https://localhost:1", "--network-pool", "x"), 2, "--network-pool 'x'")
    assert_refused(run(*docker, "--master", "https://localhost:1"), 69, "agent-tokens/w1")
    assert_refused(run(*docker, "--master", "https://192.0.2.77:1", "--network", "host"), 69, "agent-tokens/w1")
    assert_refused(run("master", "--name", "a b"), 2, "--name", "'a b'")
    assert_refused(run("master", "--notify", "hooks.example"), 2, "--notify", "accepted: https://HOST")
    assert_refused(run(*agent, "--master", "https://localhost:1"), 69, "agent-tokens/w1", "`sparkpace token w1`")
    assert_refused(run("token", "w1"), 69, "admin.token")
    assert_nothing_left(place)


def test_a_malformed_topology_names_the_line(place: Path) -> None:
    (place / "racks").write_text("# ours\n10.1.0.0/16 rack=r1\n10.1.0.300 rack=r2\n")
    assert_refused(run("up", "--topology", "racks"), 2, "racks, line 3", "10.1.0.300", "a network")
    assert_nothing_left(place)


@pytest.mark.parametrize("words", [[], [""], ["a=b", ""], [","], ["zone"], ["zone=a b"], ["-"], ["zone=a", "zone=b"]])
def test_labels_that_cannot_be(place: Path, words: list[str]) -> None:
    assert_refused(run("label", "w1", "--", *words), 2, "give NAME=VALUE")
    assert_nothing_left(place)


def test_labels_of_no_worker(place: Path) -> None:
    assert_refused(run("label", "", "a=b"), 2, "no worker was named")
    assert_nothing_left(place)


def test_a_master_elsewhere_at_no_port(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_MASTER", "https://127.0.0.1:99999")
    for words in (["ps"], ["submit", "app.py"]):
        assert_refused(run(*words), 2, "master URL 'https://127.0.0.1:99999' is not usable (Port out of range 0-65535)")
    assert_nothing_left(place)


@pytest.mark.parametrize(
    "content", [b"", b"not a log", b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n{"Ev', None]
)
def test_a_bad_event_log(place: Path, content: bytes | None) -> None:
    if content is not None:
        (place / "log").write_bytes(content)
    assert_refused(run("profile", "learn", "log"), 2, "log")
    assert_nothing_left(place)


LOG = str(Path(__file__).parents[2] / "data" / "eventlogs" / "spark43.gz")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], ["neither a profile nor an event log", "--profile NAME, or EVENTLOG..."]),
        (["--profile", "p", LOG], ["both --profile and event logs", "give --profile NAME, or EVENTLOG..."]),
        (["none"], ["event log none does not exist", "the folder of one in parts (eventlog_v2_*)"]),
        (["."], ["directory . holds no event log; give "]),
        ([LOG, "--cores", "0"], ["--cores '0'", "0.01 to 4096"]),
        ([LOG, "--cores", "-1"], ["--cores '-1'", "0.01 to 4096"]),
        ([LOG, "--cores", "nan"], ["--cores 'nan'", "0.01 to 4096"]),
        ([LOG, "--log-cores", "two"], ["--log-cores 'two'", "0.01 to 4096"]),
        ([LOG, "--log-cores", "3"], ["--log-cores 3 are more than event log", "accepted: at most 2"]),
        (["--profile", "p", "--log-cores", "1"], ["--log-cores 1 is only for event logs", "EVENTLOG"]),
        ([LOG, "--deadline", "soon"], ["--deadline 'soon'", "90s"]),
        ([LOG, "--law", "fair"], ["--law", "'fair'"]),
        ([LOG, "--num-executors", "2"], ["--num-executors is only for a cluster", "give --profile"]),
        ([LOG, "--executor-cores", "2"], ["--executor-cores is only for a cluster", "give --profile"]),
        ([LOG, "--priority", "high"], ["--priority is only for a cluster", "give --profile"]),
        ([LOG, "-o", "c.png"], ["-o c.png is only for a curve", "add --curve"]),
        ([LOG, "--curve", "-o", "no/c.png"], ["-o no/c.png cannot be written", "no is no directory"]),
        ([LOG, "--curve", "-o", "c.xyz"], ["c.xyz ends in no kind of picture"]),
        ([LOG, "--curve=1"], ["--curve"]),
    ],
)
def test_bad_options_of_plan(place: Path, arguments: list[str], said: list[str]) -> None:
    assert_refused(run("plan", *arguments), 2, *said)
    assert_nothing_left(place)


def test_a_curve_of_what_is_no_picture(place: Path) -> None:
    ProfileStore(place.parent / "home" / "profiles").add(profile("k", [record("r", 1, stage("x"))]))
    assert_refused(run("profile", "curve", "k", "-o", "c.xyz"), 2, "c.xyz ends in no kind of picture")
    assert_refused(run("profile", "curve", "k", "-o", "no/c.png"), 2, "-o no/c.png cannot be written")


def test_profiles_that_are_not_there(place: Path) -> None:
    assert_refused(run("profile", "show", "p"), 2, "'p'", "profile list")
    assert_refused(run("profile", "forget", "p"), 2, "'p'", "profile list")
    assert run("profile", "list").exit_code == 0
    assert_nothing_left(place)
