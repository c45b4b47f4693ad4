"""agent-chat-ui against a development server: from a sentence to the end of a run, by clicks alone.

Usage: ``chat_ui.py FOLDER``, with the page that ``make chat-ui`` builds there. Needs Chromium. A picture of
each step is left in ``FOLDER/pictures``.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from playwright.sync_api import Page, sync_playwright

from quantgraph import Ledger

CONTEXTS: dict[str, dict[str, Any]] = {
    "signal": {"questions": "hitl"},
    "trading": {"questions": "hitl", "approve": True, "cash": 300_000},
}
SENTENCE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
}
SECONDS = 120


@contextmanager
def server(folder: Path) -> Iterator[httpx.Client]:
    """Start a development server on loopback; its state is in ``folder``."""
    shutil.copy(Path(__file__).resolve().parents[1] / "langgraph.json", folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [Path(sys.executable).with_name("langgraph"), "dev", "--no-browser", "--no-reload"]
    command += ["--host", "127.0.0.1", "--port", port]
    patient = httpx.HTTPTransport(retries=7)  # half a minute in all
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=folder, env=os.environ | QUIET, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, transport=patient) as client,
    ):
        try:
            client.get("/ok").raise_for_status()
            yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=20)


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def page_server(dist: Path) -> Iterator[str]:
    """Serve the built page on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(dist))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()


class Chat:
    """The page of an assistant; each step leaves a picture."""

    def __init__(self, page: Page, pictures: Path) -> None:
        self.page, self.pictures, self.sentences, self.answers = page, pictures, 0, 0

    def await_text(self, text: str) -> None:
        self.page.get_by_text(text).last.wait_for(timeout=SECONDS * 1000)
        self.page.wait_for_timeout(500)  # the page scrolls to its end
        self.page.screenshot(path=self.pictures / f"{self.answers + 1}.png")

    def send(self, text: str) -> None:
        self.page.get_by_placeholder("Type your message...").fill(text)
        self.page.get_by_role("button", name="Send", exact=True).click()
        self.sentences += 1

    def respond(self, text: str) -> None:
        self.page.get_by_placeholder("Your response here...").fill(text)
        self.page.get_by_role("button", name="Send Response").click()
        self.answers += 1

    def accept(self) -> None:
        self.page.get_by_role("button", name="Accept", exact=True).click()
        self.answers += 1


def talk(client: httpx.Client, chat: Chat, url: str, graph: str, context: dict[str, Any]) -> dict[str, Any]:
    """Open the page on a new thread and answer all that is asked; return the thread's state at the end."""
    made = client.post("/assistants", json={"graph_id": graph, "context": context}).raise_for_status().json()
    address = {"apiUrl": str(client.base_url), "assistantId": made["assistant_id"]}
    chat.page.goto(f"{url}?{urlencode(address)}")
    chat.send(SENTENCE)
    chat.await_text("Which stocks should I use?")
    chat.respond("members of 合成30")
    chat.await_text("Which dates should I use?")
    chat.respond("20250102 to 20250110")
    if graph == "trading":
        chat.await_text("the orders of 2025-01-03 need approval")
        chat.accept()
        chat.await_text("the orders of 2025-01-07 need approval")
        chat.respond("approve all that follow")
    chat.await_text("Done: return" if graph == "trading" else "is ready and validated")
    if graph == "trading":  # a later request on the thread
        chat.send("now use 30 days")
        chat.await_text("I could not read this: 30 days")
        chat.respond(SENTENCE.replace("20", "30"))
        chat.await_text("need approval")
        chat.respond("approve all that follow")
        chat.await_text("sma_cross_5_30 is ready")
        chat.await_text("Done: return")
    thread = parse_qs(urlsplit(chat.page.url).query)["threadId"][0]
    runs = client.get(f"/threads/{thread}/runs").json()
    # One run for each sentence and one for each answer: the page has started no other.
    assert [run["status"] for run in runs] == ["success"] * (chat.sentences + chat.answers), runs
    values: dict[str, Any] = client.get(f"/threads/{thread}/state").json()["values"]
    assert values["ended_because"] == "done", values["ended_because"]
    return values


def main() -> None:
    """Talk to both graphs."""
    folder, state = Path(sys.argv[1]).absolute(), Path(tempfile.mkdtemp())
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    dist = folder / "page" / "dist"
    with server(state) as client, page_server(dist) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for graph, context in CONTEXTS.items():
            tab = browser.new_page(viewport={"width": 1240, "height": 1400})
            chat = Chat(tab, folder / "pictures" / graph)
            values = talk(client, chat, url, graph, context)
            print(f"{graph}: {chat.answers} answers; {values['messages'][-1]['content'].splitlines()[0]}")
        with Ledger(state / "runs" / values["run_id"] / "ledger.sqlite") as ledger:
            fills = len(ledger.fills(values["run_id"]))
        assert fills == values["summary"]["account"]["trades"] > 0, fills


if __name__ == "__main__":
    main()
