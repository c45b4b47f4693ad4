"""bubblewrap surrounds a code process where it is installed and works."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from quantgraph.sandbox._server import bwrap_prefix


@pytest.fixture(autouse=True)
def asked_anew():
    bwrap_prefix.cache_clear()
    yield
    bwrap_prefix.cache_clear()


def fake(folder, monkeypatch, script):
    file = folder / "bwrap"
    file.write_text(
        f"#!{sys.executable}\nimport os, sys\nopen({str(folder / 'asked')!r}, 'a').write('x')\n{script}\n"
    )
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


def test_without_bwrap_nothing_is_put_before_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bwrap_prefix() == ()


@pytest.mark.parametrize(
    "script", ["sys.exit('No permissions to create new namespace')", "os.kill(os.getpid(), 9)"]
)
def test_a_bwrap_that_does_not_work_is_left_out(tmp_path, monkeypatch, script):
    fake(tmp_path, monkeypatch, script)
    assert bwrap_prefix() == ()


def test_a_bwrap_that_works_is_put_before_the_command_and_asked_once(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, "i = sys.argv.index('--'); os.execv(sys.argv[i + 1], sys.argv[i + 1:])")
    prefix = bwrap_prefix()
    assert (prefix[0], prefix[-1]) == (str(tmp_path / "bwrap"), "--")
    assert {"--unshare-all", "--proc", "--tmpfs"} <= set(prefix)
    assert "--bind" not in prefix  # nothing of the disk can be written
    assert "--die-with-parent" not in prefix  # it would die with the thread that started it
    assert bwrap_prefix() is prefix
    assert (tmp_path / "asked").read_text() == "x"


def test_a_socket_and_memory_handed_over_on_it_pass_through():
    prefix = bwrap_prefix()
    code = (
        "import os, socket, sys\n"
        "link = socket.socket(fileno=int(sys.argv[1]))\n"
        "_, (memory,), _, _ = socket.recv_fds(link, 1, 1)\n"
        "link.sendall(os.pread(memory, 9, 0) + b' ' + str(os.listdir('/tmp')).encode())"
    )
    # Where there is no bwrap the same has to hold of the bare command, but for what it sees of the disk.
    assert bool(prefix) == (shutil.which("bwrap") is not None)
    ours, theirs = socket.socketpair()
    memory = os.memfd_create("frames")
    os.write(memory, b"all of it")
    with (
        ours,
        subprocess.Popen(
            [*prefix, sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        ) as process,
    ):
        theirs.close()
        socket.send_fds(ours, [b"x"], [memory])
        said = ours.makefile("rb").read()
        os.close(memory)
    assert process.returncode == 0
    assert said.startswith(b"all of it ")
    assert not prefix or said.endswith(b" []")
