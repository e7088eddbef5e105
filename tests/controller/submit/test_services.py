"""Addresses of services for a driver: variables, and files that follow a service."""

from __future__ import annotations

from pathlib import Path

from controller.submit.services import ServiceFiles, address_variables, service_files
from placement.dependencies import parse_after

AFTER = parse_after("load,connect:up,jdbc:up,clean:success")
FILE, OTHER = "SPARKPACE_AFTER_CONNECT_ADDRESS_FILE", "SPARKPACE_AFTER_JDBC_ADDRESS_FILE"


def test_a_variable_has_the_address_of_each_service_and_of_nothing_else() -> None:
    assert address_variables(AFTER, {"connect": "here:1", "load": "x:1"}) == {
        "SPARKPACE_AFTER_CONNECT_ADDRESS": "here:1",
        "SPARKPACE_AFTER_JDBC_ADDRESS": "",
    }


def test_a_file_follows_its_service_and_keeps_the_last_address(tmp_path: Path) -> None:
    files = ServiceFiles(tmp_path, AFTER)
    assert sorted(files.variables) == [FILE, OTHER]
    file = Path(files.variables[FILE])
    for addresses in ({"connect": "here:1"}, dict[str, str](), {"jdbc": "there:3"}):
        files.write(addresses)
        assert file.read_text() == "here:1\n"
    files.write({"connect": "there:2"})
    assert file.read_text() == "there:2\n"
    assert Path(files.variables[OTHER]).read_text() == "there:3\n"
    assert len(list(tmp_path.iterdir())) == 2, "nothing half-written is left"


def test_what_cannot_be_written_now_is_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    files = ServiceFiles(folder, AFTER)
    files.write({"connect": "here:1"})
    folder.mkdir()
    files.write({"connect": "here:1"})
    assert Path(files.variables[FILE]).read_text() == "here:1\n"


def test_the_folder_is_there_as_long_as_the_driver_and_only_for_services() -> None:
    with service_files(AFTER) as files:
        files.write({"connect": "here:1"})
        file = Path(files.variables[FILE])
        assert (file.read_text(), file.parent.stat().st_mode & 0o777) == ("here:1\n", 0o700)
    assert not file.parent.exists()
    with service_files(parse_after("load")) as none:
        assert none.variables == {}
