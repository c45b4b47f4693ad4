"""Code runs at the required isolation level or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from quantgraph.errors import CodeFailed, SandboxTooWeak
from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner, default_runner
from quantgraph.sandbox._runner import FreshRunner
from quantgraph.sandbox._server import PYTHON, ServerProcess, check_level

pytestmark = pytest.mark.proof

MOMENT = Moment.at("2024-01-08")
WEAK = (
    "import sys\nfrom quantgraph.sandbox import _lockdown as lockdown\n"
    "lockdown.close_files = lambda: 'no Landlock'\n"
    "lockdown.close_calls = lambda: 'no seccomp'\n"
    "from quantgraph.sandbox._worker import main\nmain(sys.argv[1:])"
)
"""A worker on a system without Landlock and seccomp."""


def weak(least):
    runner = ForkRunner(timeout=15.0, isolation=least)
    runner._server = ServerProcess(least, [*PYTHON[:-2], "-c", WEAK])
    return runner


def test_a_result_says_how_well_the_code_was_locked_in(forker, frames):
    assert forker.run(["1"], frames).isolation == "full"
    assert forker.run(["1 / 0"], frames).isolation == "full"
    assert forker.run(["import os; os._exit(1)"], frames).isolation == "full"
    assert FreshRunner().run(["1"], frames).isolation == "full"


def test_below_what_is_asked_for_nothing_runs_and_one_line_says_what_is_missing(frames):
    runner = weak("full")
    for call in (lambda: runner.run(["1"], frames), lambda: runner.prefix_run(["1"], frames).at(MOMENT)):
        with pytest.raises(SandboxTooWeak) as caught:
            call()
        first, *reasons, last = caught.value.message.split("; ")
        assert first.startswith(
            "this system isolates generated code only at level 'limits_only', but 'full' is required: "
            "the code can read files, name paths, list folders, "
        )
        assert reasons == ["no Landlock", "no seccomp"]
        assert (
            last == "to accept it set QUANTGRAPH_CODE_ISOLATION=limits_only or pass isolation='limits_only'"
        )
    assert runner._server.process is None


@pytest.mark.parametrize("least", ["limits_only", "none"])
def test_where_less_is_accepted_code_runs_and_the_result_says_so(frames, least, tmp_path):
    runner = weak(least)
    assert runner.run(["1 + 1"], frames).value == "2"
    assert runner.run(["1"], frames).isolation == "limits_only"
    with runner.prefix_run(["1"], frames) as steps:
        assert steps.at(MOMENT).isolation == "limits_only"
    runner.close()


def test_a_denied_file_is_a_refusal_only_where_code_is_sealed(frames):
    runner = weak("limits_only")
    result = runner.run(["raise PermissionError('no')"], frames)
    assert type(result.error) is CodeFailed
    assert result.error.message == "line 1 (raise PermissionError('no')): PermissionError: no"
    runner.close()


def test_code_does_not_start_where_the_host_works(frames, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = weak("limits_only")
    assert runner.run(["import os\nos.getcwd()"], frames).value == "'/'"
    runner.close()


def test_a_fresh_process_that_is_too_weak_runs_nothing_either(frames, monkeypatch, tmp_path):
    monkeypatch.setattr("quantgraph.sandbox._runner.PYTHON", (*PYTHON[:-2], "-c", WEAK))
    with pytest.raises(SandboxTooWeak, match="only at level 'limits_only', but 'full' is required"):
        FreshRunner().run(["1"], frames)
    assert FreshRunner(isolation="limits_only").run(["1"], frames).isolation == "limits_only"


def test_a_fresh_process_checks_itself_before_it_runs_code(tmp_path, frames):
    """Also when its host would not: the request says what is asked for."""
    from quantgraph.sandbox._result import Limits
    from quantgraph.sandbox._runner import cells_request
    from quantgraph.sandbox.wire._wire import encode_frames

    proof = tmp_path / "ran"
    cell = f"import os\nos.mkdir({str(proof)!r})"
    for least, ran in (("full", False), ("limits_only", True)):
        limits = Limits(timeout=10.0, memory_mb=512, output_limit=100)
        request = b"".join(encode_frames(cells_request([cell], limits, least), frames))
        subprocess.run([*PYTHON[:-2], "-c", WEAK, "--once"], input=request, capture_output=True, check=True)
        assert proof.exists() is ran


def test_a_process_that_says_nothing_of_its_level_is_not_believed():
    with pytest.raises(CodeFailed, match="did not report its isolation level"):
        check_level("perfect", "", "none")


def test_a_default_runner_is_one_for_each_set_of_limits():
    assert default_runner(5.0, 256, "limits_only") is default_runner(5.0, 256, "limits_only")
    assert default_runner(5.0, 256, "limits_only") is not default_runner(5.0, 256, "full")
    assert default_runner(5.0, 256, "limits_only").isolation == "limits_only"


@pytest.mark.parametrize(
    "shown", ["{}", "pd.read_csv({})", "np.fromfile({})", "__import__('os').stat({}) and open({})"]
)
def test_files_of_the_host_and_of_quantgraph_are_out_of_reach(forker, frames, tmp_path, shown):
    import quantgraph

    secret = tmp_path / "secret.csv"
    secret.write_text("key\nsk-123\n")
    for path in (secret, Path(quantgraph.__file__), Path.home() / ".bashrc"):
        opened = "open({})" if shown == "{}" else shown
        result = forker.run([opened.format(*[repr(str(path))] * opened.count("{}"))], frames)
        assert result.error is not None
        assert "sk-123" not in result.stdout + result.value + result.error.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_the_same_walls(frames):
    as_nobody = (
        "import encodings.cp437, os, sys\nfrom quantgraph.sandbox import _worker as worker\nworker.preload()\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\nworker.main(sys.argv[1:])"
    )
    runner = ForkRunner(timeout=15.0)
    runner._server = ServerProcess("full", [*PYTHON[:-2], "-c", as_nobody])
    assert runner.run(["import os\nos.getuid()"], frames).value == "65534"
    result = runner.run(["open('/etc/passwd')"], frames)
    assert (result.isolation, result.error.code) == ("full", "code_refused")
    assert runner.run(["import os\nos.fork()"], frames).error.code == "code_refused"
    runner.close()
