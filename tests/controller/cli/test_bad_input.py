"""Bad input of the commands: the exit code, a last line that names what is wrong, and nothing left behind.

What is wrong is found before anything is contacted: none of these tests has a cluster, an engine or a Spark. Not covered: all
that a parser refuses (the parsers' own tests).
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from controller.home import Home
from controller.runs.profile_store import ProfileStore
from stage_model.history.profile import profile
from tests.fakes.commands import assert_refused, run, table, write_cluster
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


def assert_nothing_left(place: Path) -> None:
    assert [path.name for path in place.parent.iterdir()] == ["work"]
    assert (place / "app.py").exists()


SUBMIT = table("""
    --deadline abc app.py | --deadline 90s
    --deadline=-5s app.py | --deadline 90s
    --deadline "" app.py | --deadline 90s
    --conf spark.pace.deadline=abc app.py | spark.pace.deadline 90s
    --law fair app.py | --law "'fair'" forecast paper
    --law "" app.py | --law
    --priority urgent app.py | --priority "'urgent'" low high
    none.py | "'none.py'"
    . | "'.'" directory .py jar
    --home "" app.py | --home
    --output json app.py | --output --dry-run
    --dry-run --output yaml app.py | --output "'yaml'"
    file:none.py | none.py
    --deadline 90s | application
    --mount /no/such/path app.py | --mount /no/such/path
    --mount .:rx app.py | --mount PATH:ro
    --num-executors 0 app.py | --num-executors "'0'"
    --executor-cores two app.py | --executor-cores "'two'"
    --supervise app.py | --supervise "--deploy-mode cluster"
    --deploy-mode banana app.py | --deploy-mode "'banana'" client cluster
    --status driver-1 app.py | --status "'app.py'"
    --status driver-1 --kill driver-1 | --status "'--kill'"
    --master k8s://https://h --deploy-mode cluster app.py | --deploy-mode "sparkpace conf --attach --kubernetes"
    --master local[1] app.py | --master "'local[1]'" spark://HOST:PORT
    --master yarn --mount . app.py | --mount --master
    --master yarn --conf spark.pace.placement.labels=a=b app.py | spark.pace.placement.labels
    --conf spark.master=local app.py | spark.master
    --conf spark.pace.law.paper.nonsense=1 app.py | spark.pace.law.paper.nonsense
    --conf spark.pace.dedline=5s app.py | spark.pace.dedline spark.pace.deadline
    --image "" app.py | --image
    --network open app.py | --network "'open'" closed
    --conf spark.pace.network=host app.py | network "'host'" closed
    --nonsense app.py | "'--nonsense'"
    --exec=now app.py | --exec "'now'"
    --dedline=90s app.py | "'--dedline=90s'" --deadline
    --by 90s app.py | --by --pipeline
    --pipeline "a b" app.py | --pipeline "'a b'"
    --pipeline p --by soon app.py | --by "'soon'" 90s
    --pipeline p --by "" app.py | --by
    --pipeline p --by 2001-01-01T00:00 app.py | --by 2001-01-01
    --pipeline p --by 90s --deadline 80s app.py | --by --deadline
    --pipeline p --by 90s --conf spark.pace.deadline=80s app.py | --by spark.pace.deadline
    --after x:failed app.py | --after "'x:failed'" ID:success
    --conf spark.pace.placement.policy=best app.py | "'best'" spread smooth-wrr
    --conf spark.pace.placement.labels=a==b app.py | "'a==b'" NAME!=VALUE
    --conf spark.pace.placement.resources=gpu=1.5 app.py | gpu=1.5
    --conf spark.pace.placement.nonsense=1 app.py | spark.pace.placement.nonsense
""")


@pytest.mark.parametrize(("words", "named"), SUBMIT)
def test_bad_options_of_submit(place: Path, words: list[str], named: list[str]) -> None:
    assert_refused(run("submit", *words), 2, *named)
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
    "words",
    [["submit", "app.py"], ["submit", "--dry-run", "app.py"], ["plan", "--profile", "p"], ["ps"], ["top"], ["kill", "last"]],
)
def test_commands_without_a_cluster(place: Path, words: list[str]) -> None:
    assert_refused(run(*words), 69, "`sparkpace up`")
    assert_nothing_left(place)


@pytest.mark.parametrize(
    "words",
    [
        ["report", "last"],
        ["plot", "last", "-o", "f.png"],
        ["logs", "app-1"],
        ["profile", "show", "p"],
        ["profile", "forget", "p"],
    ],
)
def test_records_that_are_not_there(place: Path, words: list[str]) -> None:
    assert_refused(run(*words), 2, words[-1] if words[0] == "profile" else words[1])
    assert_nothing_left(place)


@pytest.mark.parametrize("words", [["down"], ["profile", "list"]])
def test_what_is_no_error_without_a_cluster(place: Path, words: list[str]) -> None:
    assert run(*words).exit_code == 0
    assert_nothing_left(place)


UP = table("""
    --workers 0 | --workers
    --runtime podman | --runtime
    --cores 0 | --cores
    --cores 100000 | --cores
    --memory lots | --memory
    --memory 1m | --memory
    --period 5ms | --period "'5ms'" 200ms 60s
    --period 61s | --period "'61s'" 200ms 60s
    --floor 0 | --floor "'0'" 0.05
    --floor 0.07 | --floor "'0.07'" 0.05
    --floor inf | --floor "'inf'" 0.05
    --floor half | --floor "'half'" 0.05
    --local-limit abc | --local-limit 1% 99% none
    --least-free-memory 100% | --least-free-memory "'100%'" 1% 99% none
    --least-free-disk "" | --least-free-disk 1% 99% none
    --disk-mb fast | --disk-mb "'fast'" MB/s 1
    --disk-mb 0 | --disk-mb "'0'" MB/s 1
    --disk-mb nan | --disk-mb "'nan'" MB/s 1
    --net-mbit 1e9 | --net-mbit "'1e9'" Mbit/s 1
    --runtime adopt --disk-mb 100 | --disk-mb docker process
    --runtime kubernetes --cores 1 --net-mbit 100 | --net-mbit docker process
    --cores 0.15 --workers 2 | --cores 0.1
    --name "no name" | --name "'no name'"
    --notify hooks.example | --notify https://HOST
    --notify @nowhere | --notify @nowhere https://HOST
    --notify @/ | --notify /
    --notify-missing | --notify-missing "by --notify"
    --user-limits "" | --user-limits cores
    --user-limits "root cores" | --user-limits "'cores'"
    --user-limits "root cores=2 cores=3" | --user-limits "'cores=3'"
    --port 70000 | --port 65535
    --port http | --port 65535
    --port "" | --port 65535
    --port 1.5 | --port 65535
    --host 999.1.1.1 | --host "'999.1.1.1'"
    --network bridge | --network "'open'" "'closed'" "'host'"
    --network-pool 10.0.0.1/8 | --network-pool "'10.0.0.1/8'" 10.201.0.0/16
    --driver-host 192.0.2.77 | --driver-host "'192.0.2.77'"
    --driver-host localhost | --driver-host IPv4
    --allow-mount /no/such/root | --allow-mount /no/such/root
    --law fair | --law
    --keep-runs 0 | --keep-runs
    --lost-after 5s | --lost-after 15s
    --worker cores=1 | --worker memory "cores=0.8 memory=6g"
    --worker "cores=1 memory=2g size=3" | "'size=3'"
    --worker "cores=-1 memory=2g" | --worker cores "'-1'"
    --worker "cores=0.5 memory=2g labels=zone" | --worker labels "'zone'" NAME=VALUE
    --worker "cores=0.5 memory=2g resources=gpu=0.5" | --worker resources gpu=0.5
    --worker "cores=0.5 memory=2g id=W!" | "--worker id" "'W!'"
    --worker "cores=0.5 memory=2g host=a/b" | "--worker host" "'a/b'"
    --worker "cores=0.5 memory=1g id=x" --worker "cores=0.5 memory=1g id=x" | --worker twice
    --worker "cores=0.5 memory=1g" --workers 2 | --worker --workers
    --worker "cores=4096 memory=1g" | --worker w1 4096 512
    --placement best | --placement "'spread'"
    --provider docker --grow-up-to "cores=1 memory=2g labels=a=b" | --grow-up-to labels
    --provider docker --agent-options "--labels a=b" | --agent-options --labels
    --provider docker --usual-worker "cores=1 memory=256m" | --usual-worker 256m 512m
    --provider docker --usual-worker "cores=2 memory=1g" --grow-up-to "cores=1 memory=2g" | --usual-worker 2048
    --placement-weights data=-1 | "'data=-1'" 1000
    --placement-weights cpu=0.5,gpu=0.7 | cpu gpu 1
    --topology none.txt | --topology none.txt
    --topology racks | "racks, line 3" 10.1.0.300
    --provider command | --provider-command
    --provider command --provider-command app.py | --provider-command app.py
    --provider docker --provider-folder nowhere | --provider-folder nowhere
    --usual-worker "cores=1 memory=1g" | --provider docker command
    --provider docker --grow-up-to "cores=x memory=1g" | --grow-up-to cores "'x'"
    --idle soon | --idle "'soon'"
    --utilisation 0 | --utilisation 0.05
    --runtime kubernetes | --cores
    --runtime kubernetes --cores 2 --workers 3 | kubernetes one
    --runtime kubernetes --cores 2 --shared | kubernetes --shared
    --runtime kubernetes --cores 2 --signals | kubernetes --signals
    --runtime kubernetes --cores 2 --namespace "A B" | --namespace "'A B'"
    --runtime adopt --nodes 2 | --nodes "--runtime kubernetes"
    --runtime process --namespace jobs | --namespace "--runtime kubernetes"
""")


@pytest.mark.parametrize(("words", "named"), UP)
def test_bad_options_of_up(place: Path, words: list[str], named: list[str]) -> None:
    (place / "racks").write_text("# ours\n10.1.0.0/16 rack=r1\n10.1.0.300 rack=r2\n")
    assert_refused(run("up", *words), 2, *named)
    assert_nothing_left(place)


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["up", option, ""]
            for option in ("--home", "--config", "--topology", "--provider-command", "--provider-folder", "--allow-mount")
        ),
        *(["ps", "--home", ""], ["config", "check", ""], ["plot", "last", "-o", ""], ["conf", "-o", ""]),
        *(["plan", ""], ["profile", "learn", ""], ["shim", ""]),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_working_directory(place: Path, words: list[str]) -> None:
    assert_refused(run(*words), 2, "empty")
    assert_nothing_left(place)


def test_up_without_a_jdk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(place))
    assert_refused(run("up", "--runtime", "process", "--port", "0"), 69, "Java", "JAVA_HOME")
    monkeypatch.setenv("JAVA_HOME", str(place))
    assert_refused(run("up", "--runtime", "process", "--port", "0"), 69, "JAVA_HOME")
    assert_nothing_left(place)


def test_up_without_what_a_runtime_needs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in (f"unix://{place}/no.sock", "tcp://127.0.0.1:1"):
        monkeypatch.setenv("DOCKER_HOST", host)
        assert_refused(run("up", "--runtime", "docker", "--port", "0"), 69, "Docker", "--runtime process")
    monkeypatch.setenv("KUBECONFIG", str(place / "none"))
    assert_refused(run("up", "--runtime", "kubernetes", "--cores", "2", "--port", "0"), 69, "KUBECONFIG")
    assert_nothing_left(place)


def test_up_on_a_taken_port(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(run("up", "--runtime", "process", "--port", str(port)), 69, f"port {port}", "--port")
    assert_nothing_left(place)


@pytest.fixture
def home(place: Path) -> Home:
    """Provide a home of a cluster whose master died."""
    home = Home(place.parent / "home")
    home.create()
    make_ca(home)
    write_cluster(home)
    return home


def test_a_second_up(home: Home) -> None:
    before = sorted(home.path.iterdir())
    assert_refused(run("up", "--law", "paper", "--port", "0"), 2, "--law", "--port", "sparkpace down")
    assert sorted(home.path.iterdir()) == before


def test_a_master_that_died(home: Home) -> None:
    assert_refused(run("submit", "app.py"), 69, "https://127.0.0.1:1", "`sparkpace up`")


def test_a_token_file_that_others_can_read(home: Home) -> None:
    home.submit_token_file.touch(0o600)
    home.submit_token_file.chmod(0o644)
    assert_refused(run("submit", "app.py"), 77, "submit.token", "chmod 600")


SERVICES = table("""
    --master localhost | "'localhost'" https://
    --master http://localhost:1 | "'http://localhost:1'" https://
    --master https://127.0.0.1:99999 | 99999 https://127.0.0.1:7070
    --master https://127.0.0.1:x | https://127.0.0.1:x https://127.0.0.1:7070
    --master https://127.0.0.1:0 | https://127.0.0.1:0 https://127.0.0.1:7070
    --master https://[::1 | https://[::1 https://127.0.0.1:7070
    --period 0s | --period
    --cores nan | --cores
    --cores 1e9 | --cores
    --cores 0.5 --floor 0.9 | "--cores 0.5" "--floor 0.9"
    --memory 9999g | --memory
    --memory 100m | "--memory 100m" 512m
    --memory -4g | --memory "'-4g'"
    --host 999.1.1.1 | --host "'999.1.1.1'"
    --labels zone | --labels "'zone'"
    --resources gpu=-1 | --resources gpu=-1
    --runtime docker --master https://192.0.2.77:1 | "--network open" 192.0.2.77 "--network host"
    --runtime docker --network-pool x | --network-pool "'x'"
""")
AGENT = (
    *("agent", "--worker-id", "w1", "--cores", "1", "--memory", "1024"),
    *("--runtime", "process", "--master", "https://localhost:1"),
)


@pytest.mark.parametrize(("words", "named"), SERVICES)
def test_an_agent_refuses_before_it_starts(place: Path, words: list[str], named: list[str]) -> None:
    assert_refused(run(*AGENT, *words), 2, *named)
    assert_nothing_left(place)


def test_services_without_their_tokens(place: Path) -> None:
    assert_refused(run(*AGENT), 69, "agent-tokens/w1", "`sparkpace token w1`")
    for words in ((), ("--master", "https://192.0.2.77:1", "--network", "host")):
        assert_refused(run(*AGENT, "--runtime", "docker", *words), 69, "agent-tokens/w1")
    assert_refused(run("token", "w1"), 69, "admin.token")
    assert_nothing_left(place)


def test_a_master_refuses_before_it_starts(place: Path) -> None:
    assert_refused(run("master", "--name", "a b"), 2, "--name", "'a b'")
    assert_refused(run("master", "--notify", "hooks.example"), 2, "--notify", "https://HOST")
    assert_refused(run("master", "--notify-missing"), 2, "--notify-missing", "by --notify")
    assert_nothing_left(place)


@pytest.mark.parametrize("words", [[], [""], ["a=b", ""], [","], ["zone"], ["zone=a b"], ["-"], ["zone=a", "zone=b"]])
def test_labels_that_cannot_be(place: Path, words: list[str]) -> None:
    assert_refused(run("label", "w1", "--", *words), 2, "NAME=VALUE")
    assert_nothing_left(place)


def test_labels_of_no_worker(place: Path) -> None:
    assert_refused(run("label", "", "a=b"), 2, "worker")
    assert_nothing_left(place)


def test_a_master_elsewhere_at_no_port(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_MASTER", "https://127.0.0.1:99999")
    for words in (["ps"], ["submit", "app.py"]):
        assert_refused(run(*words), 2, "'https://127.0.0.1:99999'")
    assert_nothing_left(place)


LOG = str(Path(__file__).parents[2] / "data" / "eventlogs" / "spark43.gz")
PLAN = table("""
     | --profile EVENTLOG
    --profile p LOG | --profile EVENTLOG
    none | none eventlog_v2_
    . | .
    LOG --cores 0 | --cores "'0'" 0.01 4096
    LOG --cores -1 | --cores "'-1'" 0.01 4096
    LOG --cores nan | --cores "'nan'" 0.01 4096
    LOG --log-cores two | --log-cores "'two'" 0.01 4096
    LOG --log-cores 3 | "--log-cores 3" 2
    --profile p --log-cores 1 | "--log-cores 1" EVENTLOG
    LOG --deadline soon | --deadline "'soon'" 90s
    LOG --law fair | --law "'fair'"
    LOG --num-executors 2 | --num-executors --profile
    LOG --executor-cores 2 | --executor-cores --profile
    LOG --priority high | --priority --profile
    --profile p -o c.png | -o c.png --curve
    LOG -o c.xyz | c.xyz
    LOG --curve -o no/c.png | -o no/c.png
    LOG --curve -o c.xyz | c.xyz
    LOG --curve=1 | --curve
""")


@pytest.mark.parametrize(("words", "named"), PLAN)
def test_bad_options_of_plan(place: Path, words: list[str], named: list[str]) -> None:
    assert_refused(run("plan", *(LOG if word == "LOG" else word for word in words)), 2, *named)
    assert_nothing_left(place)


def test_a_curve_of_what_is_no_picture(place: Path) -> None:
    ProfileStore(place.parent / "home" / "profiles").add(profile("k", [record("r", 1, stage("x"))]))
    for file in ("c.xyz", "no/c.png"):
        assert_refused(run("profile", "curve", "k", "-o", file), 2, file)
