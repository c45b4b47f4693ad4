"""A replay reaches nobody: connections, datagrams and look-ups are refused where it runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import httpx
import pytest

from quantgraph.errors import RunDiverged
from quantgraph.recording._entries import no_network


def with_socket(kind, act):
    with socket.socket(type=kind) as made:
        act(made)


WAYS = {
    "connect": lambda port: socket.create_connection(("127.0.0.1", port)),
    "connect_ex": lambda port: with_socket(
        socket.SOCK_STREAM, lambda made: made.connect_ex(("127.0.0.1", port))
    ),
    "sendto": lambda port: with_socket(
        socket.SOCK_DGRAM, lambda made: made.sendto(b"x", ("127.0.0.1", port))
    ),
    "getaddrinfo": lambda port: socket.getaddrinfo("127.0.0.1", port),
    "gethostbyname": lambda _: socket.gethostbyname("localhost"),
    "httpx": lambda port: httpx.get(f"http://127.0.0.1:{port}/", trust_env=False),
}


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("way", WAYS)
def test_no_way_out_is_open_and_the_refusal_names_host_and_port(port, way):
    with no_network(), pytest.raises(RunDiverged) as caught:
        WAYS[way](port)
    assert caught.value.data["host"] in {"127.0.0.1", "localhost"}
    if way != "gethostbyname":
        assert caught.value.data["port"] == port
        assert f"127.0.0.1:{port}" in caught.value.message


def test_another_thread_of_the_process_goes_on(port):
    reached = []

    def go():
        with socket.create_connection(("127.0.0.1", port)):
            reached.append(port)

    with no_network():
        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
    with socket.create_connection(("127.0.0.1", port)):
        reached.append("after")
    assert reached == [port, "after"]


def test_everywhere_means_every_thread(port):
    code = (
        "import socket, sys, threading\n"
        "from quantgraph.recording import no_network\n"
        "def go():\n"
        "    try: socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "    except Exception as error: print(error.line)\n"
        "with no_network(everywhere=True):\n"
        "    thread = threading.Thread(target=go); thread.start(); thread.join()\n"
        "socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(port)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("run_diverged: ")
    assert f"127.0.0.1:{port}" in done.stdout
