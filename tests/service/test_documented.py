"""What README and docs/service.md tell people to type: the commands, the requests, and the files for Docker."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import nptad.cli.app
from nptad.errors import InputError
from nptad.service import command, run

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/service.md")]
TOKEN = "0123456789abcdef-of-tests"
PORT = 8766


@pytest.fixture
def started(monkeypatch, tmp_path):
    """What would be served, with a model in the current directory."""
    services = []

    async def serve(service, listener):
        services.append((service, listener.getsockname()))

    monkeypatch.setattr(run, "serve", serve)
    monkeypatch.setattr("nptad.models.folder.fingerprint", lambda _: "")
    monkeypatch.setattr("nptad.http.addresses.listen", lambda host, port: FakeSocket((host, port)))
    monkeypatch.delenv("NPTAD_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return services


class FakeSocket:
    def __init__(self, name):
        self.getsockname = lambda: name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def api(*arguments):
    nptad.cli.app.app(["api", *arguments], exit_on_error=False, result_action="return_value")


def test_the_documented_commands_start_a_service_on_this_machine(started):
    lines = [line.strip() for page in PAGES for line in page.splitlines()]
    commands = [shlex.split(line)[2:] for line in lines if line.startswith("nptad api ")]
    assert len(commands) >= 2
    for arguments in commands:
        api(*arguments)
    assert {name for _, name in started} == {("127.0.0.1", PORT)}
    assert {service.token for service, _ in started} == {None}


def test_the_documented_options_and_their_defaults_are_those_of_the_command(started):
    api("model")
    (service, _), limits = started[0], started[0][0].limits
    rows = re.findall(r"^\| `(--[a-z-]+)` \|.*\| ([\d.,]+) \|$", PAGES[1], flags=re.MULTILINE)
    found = {name: float(value.replace(",", "")) for name, value in rows}
    assert found == {
        "--workers": service.workers,
        "--max-megabytes": limits.body_bytes / 1e6,
        "--max-rows": service.options.most_rows,
        "--max-requests": limits.requests,
        "--seconds": limits.seconds,
        "--false-alarm-rate": 0.01,
    }
    given = [part for name, value in rows for part in (name, value.replace(",", ""))]
    api("model", *given)
    assert started[1][0].options.false_alarm_rate == 0.01


def test_the_token_comes_from_the_environment_or_a_file_and_stays_here(started, monkeypatch, tmp_path):
    monkeypatch.setenv("NPTAD_TOKEN", f" {TOKEN}\n")
    api("model", "--host", "0.0.0.0")
    assert started[0][0].token == TOKEN
    assert "NPTAD_TOKEN" not in os.environ
    (tmp_path / "token").write_text("of-the-file-0123456789\n")
    api("model", "--host", "0.0.0.0", "--token-file", "token")
    assert started[1][0].token == "of-the-file-0123456789"


@pytest.mark.parametrize(
    ("token", "arguments", "sentence"),
    [
        (None, ["--host", "0.0.0.0"], "On 0.0.0.0 others can reach the service; set NPTAD_TOKEN or --token-file to a"),
        ("", [], "The token must have at least 16 printable ASCII characters"),
        ("too short", [], "The token must have at least 16 printable ASCII characters"),
        ("ä" * 20, [], "The token must have at least 16 printable ASCII characters"),
        (None, ["--token-file", "nothing"], "The token in nothing cannot be read: No such file or directory."),
    ],
)
def test_a_token_that_is_none_is_refused(started, monkeypatch, token, arguments, sentence):
    if token is not None:
        monkeypatch.setenv("NPTAD_TOKEN", token)
    with pytest.raises(InputError, match=re.escape(sentence)):
        api("model", *arguments)
    assert not started


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "starlette" else sys)
    with pytest.raises(InputError, match=r"needs starlette; install them with pip install 'nptad\[service\]'"):
        api("model")


def test_the_image_is_made_of_files_that_are_there_and_runs_the_service_without_rights():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = [name for word, rest in lines if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() and f"!{name}" in ignored for name in sources)
    assert {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "src"} == set(sources)
    of_image = [(word, rest) for word, rest in lines[[word for word, _ in lines].index("FROM", 1) :]]
    said = dict(of_image)
    assert said["USER"] == "10001:10001"
    assert said["EXPOSE"] == str(PORT)
    assert f"127.0.0.1:{PORT}/health" in said["HEALTHCHECK"]
    assert yaml.safe_load(said["ENTRYPOINT"]) == ["nptad", "api", "--host", "0.0.0.0"]
    assert [word for word, _ in of_image].index("USER") > [word for word, _ in of_image].index("COPY")


def test_the_image_passes_hadolint():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    subprocess.run([hadolint, ROOT / "Dockerfile"], check=True)


def test_compose_mounts_models_and_wants_a_token():
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["nptad"]
    assert service["volumes"] == ["./models:/models:ro"]
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert ":?" in service["environment"]["NPTAD_TOKEN"]
    assert service["command"][0].startswith("/models/")
    assert service["read_only"]


def test_the_process_that_speaks_http_does_without_torch():
    code = "import sys, nptad.service.command, nptad.service.run; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
