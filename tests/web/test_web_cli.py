"""The command ``nptad serve``."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import uvicorn
from cyclopts import App

from nptad.errors import InputError
from nptad.http.addresses import url_host
from nptad.web import command as web_cli


@pytest.fixture
def served(monkeypatch):
    """What would be served."""
    servers = []

    def run(server, sockets):
        servers.append((server.config, sockets[0].getsockname()))
        server.config.app.state.site.store.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    return servers


def serve(*arguments):
    app = App()
    app.command("nptad.web.command:serve", name="serve")
    app(["serve", *arguments], result_action="return_value")


def test_by_default_only_this_machine_can_come_in(served, tmp_path, capsys):
    serve("--port", "0", "--no-browser", "--directory", str(tmp_path), "--max-megabytes", "7", "--max-rows", "99")
    config, (host, port) = served[0]
    site = config.app.state.site
    assert host == "127.0.0.1"
    assert (site.config.max_bytes, site.config.max_rows, site.config.token) == (7_000_000, 99, None)
    out = capsys.readouterr().out
    assert f"The page is at http://127.0.0.1:{port}/\n" in out
    assert str(tmp_path) in out


def test_on_another_address_there_is_a_token(served, tmp_path, capsys):
    serve("--host", "0.0.0.0", "--port", "0", "--no-browser", "--directory", str(tmp_path))
    serve("--host", "0.0.0.0", "--port", "0", "--no-browser", "--directory", str(tmp_path))
    tokens = [config.app.state.site.config.token for config, _ in served]
    assert len(set(tokens)) == 2
    assert all(len(token) > 40 for token in tokens)
    out = capsys.readouterr().out
    assert re.search(rf"The page is at http://127\.0\.0\.1:\d+/\?token={re.escape(tokens[0])}\n", out)
    assert f"From other machines: http://{socket.gethostname().lower()}:" in out


def test_the_browser_is_opened_unless_told(served, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(web_cli.webbrowser, "open", opened.append)
    serve("--port", "0", "--directory", str(tmp_path))
    serve("--port", "0", "--directory", str(tmp_path), "--no-browser")
    assert opened == [f"http://127.0.0.1:{served[0][1][1]}/"]


def test_a_port_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port} is in use"):
            web_cli.serve(port=port, directory=tmp_path, browser=False)


def test_an_address_that_is_not_ours_is_named(tmp_path):
    with pytest.raises(InputError, match=r"Cannot listen on 192\.0\.2\.1"):
        web_cli.serve(host="192.0.2.1", directory=tmp_path, browser=False)


def test_without_the_extra_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(web_cli, "find_spec", lambda name: None if name == "fastapi" else name)
    with pytest.raises(InputError, match=r"needs fastapi; install .*pip install 'nptad\[web\]'"):
        web_cli.serve(directory=tmp_path)


def test_the_command_and_the_server_do_without_torch():
    code = "import sys, nptad.web.command, nptad.web.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_directory_is_where_the_user_wants_it(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("NPTAD_WEB_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert web_cli.data_directory() == Path("/data/nptad/web")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert web_cli.data_directory() == Path.home() / ".local/share/nptad/web"
    monkeypatch.setenv("NPTAD_WEB_DIR", "/elsewhere")
    assert web_cli.data_directory() == Path("/elsewhere")


def test_an_address_in_a_url():
    assert url_host("::1") == "[::1]"


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_signal_ends_the_server(tmp_path):
    program = "from nptad.web.command import serve; from pathlib import Path; import sys\n"
    program += "serve(port=0, browser=False, directory=Path(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(tmp_path / "home")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        url = re.search(r"http://\S+", server.stdout.readline())[0]
        assert httpx.get(url, timeout=60).status_code == 200
        server.terminate()
        assert server.wait(60) == -signal.SIGTERM
        assert "Traceback" not in server.stderr.read()
