"""Bad input to the command: one clear line, a folder that says how the run ended, no traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from thinned import thinned
from tushare_stub import TushareStub

from quantgraph.broker.ledger import Ledger
from quantgraph.cli import main
from quantgraph.testing import Fault, OpenAIStub, Reply

pytestmark = pytest.mark.proof

SHORT = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年"


@pytest.fixture
def command(monkeypatch, capfd):
    """Run the command in this process: exit status, stdout, stderr."""

    def call(*arguments, stdin=""):
        import io

        monkeypatch.setattr(sys, "argv", ["quantgraph", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        out, err = capfd.readouterr()
        return status, out, err

    return call


def failed(done, *words, because="data_unavailable", exit_status=1):
    """The run failed as it should: its exit status, the reason once, and the same in its folder."""
    status, out, err = done
    assert status == exit_status, (out, err)
    assert "Traceback" not in err + out
    result = json.loads(out)
    assert result["ended_because"] == because
    assert "\n" not in result["error"]
    for word in words:
        assert word in result["error"], result["error"]
    assert err.count(result["error"]) >= 1
    saved = json.loads((Path(result["run_dir"]) / "result.json").read_text(encoding="utf-8"))
    assert saved == result | {"run_dir": str(Path(result["run_dir"]).absolute())}
    return result


def test_an_unknown_code_is_named(command):
    failed(
        command("run", "999999.SH 5日均线上穿20日均线买入 2025年", "--headless", "--json"),
        "unknown",
        "999999.SH",
    )


def test_an_unknown_name_is_asked_for_and_refused(command):
    done = command("run", SENTENCE, "--symbols", "不存在公司", "--headless", "--json")
    failed(done, "unknown_symbol", "不存在公司")


def test_a_window_without_sessions_names_the_available_ones(command):
    done = command("run", SENTENCE, "--start", "20251001", "--end", "20251002", "--headless", "--json")
    failed(done, "bad_window", "no session from 20251001 to 20251002", "20230103")


def test_a_start_after_the_end_is_refused(command):
    done = command("run", SENTENCE, "--start", "20250301", "--end", "20250101", "--headless", "--json")
    failed(done, "bad_window", "20250301", "after")


@pytest.mark.parametrize("start", ["2025-13-01", "tomorrow", "20250231"])
def test_an_invalid_date_is_refused_before_anything_is_written(command, start):
    status, out, err = command("run", SENTENCE, "--start", start, "--end", "20250401", "--headless", "--json")
    assert (status, out) == (2, "")
    assert err == f"bad_option: start={start!r} is not a date; write YYYYMMDD or YYYY-MM-DD\n"
    assert not Path("runs").exists()


def test_a_window_after_all_data_is_refused(command):
    done = command("run", SENTENCE, "--start", "20270101", "--end", "20270201", "--headless", "--json")
    failed(done, "20270101")


def test_a_file_with_wrong_columns_is_named_with_the_right_ones(command, tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("symbol,week,price\n600519.SH,W01,1500\n", encoding="utf-8")
    status, out, err = command("run", SENTENCE, "--source", path, "--headless", "--json")
    assert (status, out) == (2, "")
    assert "prices.csv" in err
    assert "trade_date" in err


def test_a_source_that_does_not_exist_is_wrong_usage_and_leaves_nothing(command, tmp_path):
    status, out, err = command("run", SENTENCE, "--source", "nowhere/prices.csv", "--json")
    assert (status, out) == (2, "")
    assert "nowhere/prices.csv" in err
    assert "sample" in err
    assert "Traceback" not in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", ""],
        ["run", SENTENCE, "--cash", "-5"],
        ["run", SENTENCE, "--nonsense"],
        ["trade", "x"],
    ],
)
def test_wrong_usage_is_status_two(command, arguments):
    status, out, err = command(*arguments)
    assert status == 2, (out, err)
    assert "Traceback" not in err


def test_tushare_without_a_token_says_how_to_set_one(command):
    failed(
        command(
            "run", "600519.SH 5日均线上穿20日均线买入 2024年", "--source", "tushare", "--headless", "--json"
        ),
        "TUSHARE_TOKEN",
    )


def test_a_token_that_is_refused(command, monkeypatch):
    with TushareStub(
        {"trade_cal": pd.DataFrame({"cal_date": ["20240102"], "is_open": [1]})}, token="right"
    ) as stub:
        monkeypatch.setenv("TUSHARE_URL", stub.url)
        monkeypatch.setenv("TUSHARE_TOKEN", "wrong-token-123")
        done = command(
            "run", "600519.SH 5日均线上穿20日均线买入 2024年", "--source", "tushare", "--headless", "--json"
        )
    result = failed(done, "permission_denied")
    assert "wrong-token-123" not in json.dumps(result) + done[2]


def test_a_broken_network(command, monkeypatch):
    monkeypatch.setenv("TUSHARE_URL", "http://127.0.0.1:9/dataapi")
    monkeypatch.setenv("TUSHARE_TOKEN", "t")
    done = command(
        "run", "600519.SH 5日均线上穿20日均线买入 2024年", "--source", "tushare", "--headless", "--json"
    )
    failed(done, "source_unavailable")


@pytest.fixture
def served(monkeypatch):
    """Point the command at an OpenAI-compatible stub."""

    def point(stub):
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-secret")
        monkeypatch.setenv("QUANTGRAPH_MODEL", "stub")
        monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "1")
        monkeypatch.setenv("QUANTGRAPH_REQUEST_TIMEOUT", "5")

    return point


@pytest.mark.parametrize(
    "reply",
    ["I would be glad to help you trade!", '```json\n{"task_type": "mixed", "user_intent": \n```', "[]", ""],
)
def test_a_model_that_answers_prose_or_broken_json(command, served, reply):
    with OpenAIStub(lambda _request: Reply.text(reply)) as stub:
        served(stub)
        done = command("run", SENTENCE, "--headless", "--json")
        calls = len(stub.requests)
    result = failed(done, "model_output_invalid", because="max_retries")
    assert calls == 2  # the question, and the one that names what was wrong with the answer
    assert "sk-test-secret" not in json.dumps(result) + done[2]


@pytest.mark.parametrize("fault", [Fault.http(500), Fault.http(429), Fault.http(401), Fault.disconnect()])
def test_a_model_server_that_fails(command, served, fault):
    with OpenAIStub(lambda _request: fault) as stub:
        served(stub)
        done = command("run", SENTENCE, "--headless", "--json")
    result = failed(done, because="model_unavailable")
    assert "sk-test-secret" not in json.dumps(result) + done[2]


def decision(request):
    return Reply.text(
        json.dumps(
            {
                "task_type": "mixed",
                "user_intent": {
                    "type": "mixed",
                    "params": {
                        "ts_code": "990030.SH",
                        "start_date": "20250102",
                        "end_date": "20251231",
                        "strategy_desc": "5日均线上穿20日均线买入，下穿卖出",
                    },
                },
            }
        )
    )


CODE = {
    "raises": ("raise ValueError('no idea')", "no idea"),
    "loops": ("while True: pass", "code_timeout"),
    "50 GB": ("np.ones(50 << 27)", "code_memory"),
    "0.5": (
        "GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})",
        "0.5 at (2025-01-02",
    ),
    "inf": ("GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * np.inf})", "inf"),
    "time zone": (
        "c = snapshot['ohlcv']['close'] * 0\nGLOBAL_DATA_STATE.update('signal', {'s': c.tz_localize('Asia/Shanghai')})",
        "time zone Asia/Shanghai",
    ),
    "no signal": ("print('x' * 20_000_000)", "no_signal"),
}


@pytest.mark.parametrize("case", thinned(CODE, lambda _, case: case != "loops"))
def test_code_that_goes_wrong_ends_the_run_with_its_line(command, served, monkeypatch, case):
    code, words = CODE[case]

    def answer(request):
        text = json.dumps(request.messages, ensure_ascii=False)
        if "<user_request>" in text:
            return decision(request)
        if request.messages[-1]["role"] == "tool":
            return Reply.text("It did not work.")
        if "<strategy>" in text:
            return Reply.call("python_repl", query=code)
        if "<fetch>" in text:
            return Reply.call(
                "tushare_daily_bar", ts_code="990030.SH", start_date="20250102", end_date="20250630"
            )
        return Reply.text('{"issues_found": []}')

    monkeypatch.setenv("QUANTGRAPH_CODE_TIMEOUT", "1.5")
    with OpenAIStub(answer) as stub:
        served(stub)
        done = command("run", SENTENCE, "--headless", "--json")
    failed(done, words, because="repeated_error")


def test_debug_shows_where(command):
    status, _, err = command("run", SENTENCE, "--source", "nowhere", "--debug")
    assert status == 2
    assert "Traceback" in err


def test_questions_are_asked_at_the_prompt_one_by_one(command):
    answers = "合成30成分股\n2025年上半年\n"
    status, out, err = command("run", "5日均线上穿20日均线买入，下穿卖出", "--json", stdin=answers)
    assert status == 0, err
    result = json.loads(out)
    assert result["window"] == {"start": "20250101", "end": "20250630"}
    assert len(result["symbols"]) == 30
    assert result["assumptions"] == []


@pytest.mark.parametrize("options", [[], ["--approve"]])
def test_without_more_input_the_run_waits_for_its_answer(command, options):
    answers = "合成30成分股\n2025年上半年\n" if options else ""
    done = command("run", "5日均线上穿20日均线买入，下穿卖出", "--json", *options, stdin=answers)
    result = failed(done, "needs_answer", because="needs_answer")
    assert result["asked"]["kind"] == ("approval" if options else "symbol")
    *_, asked, page, _, then, hint = done[2].splitlines()
    assert (asked, then[:17]) == ("> ", "未完成（needs_answer）")
    assert page == f"页面: {result['run_dir']}/report.html"
    assert hint == f"quantgraph resume {result['run_dir']} --answer TEXT"


def test_the_last_line_names_the_resume_command_where_that_helps(command):
    read_twice = SHORT.replace("，下穿卖出", "")  # no exit is said
    _, out, err = command(
        "run", "--signal-only", read_twice, "--budget", "calls=1,money=1", "--headless", "--json"
    )
    folder = json.loads(out)["run_dir"]
    assert err.splitlines()[-1] == f"quantgraph resume {folder} --budget calls=N, with N above 1"
    _, _, err = command("run", "--signal-only", SHORT, "--symbols", "999999.SH", "--headless")
    assert "quantgraph resume" not in err


def test_runs_are_where_the_settings_or_out_say(command, monkeypatch, tmp_path):
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", "mine")
    for where, options in (("mine", []), ("other", ["--out", "other"])):
        result = json.loads(command("run", "--signal-only", SHORT, "--headless", "--json", *options)[1])
        name = result["run_id"]
        assert Path(result["run_dir"]) == Path(where, name)
        status, out, err = command("replay", name, *options)
        assert (status, out) == (
            0,
            f"{name}: identical (ledger, execution log, signal, strategy, result)\n",
        ), err
        status, out, err = command("resume", name, "--answer", "x", "--json", *options)
        assert (status, json.loads(out)) == (0, result)
        page = Path(where, name, "report.html")
        assert err == f"run {name} is done and takes no answer\n页面: {page}\n"


def test_an_invalid_price_file_is_wrong_usage(command, monkeypatch):
    Path("prices.toml").write_text("nonsense")
    monkeypatch.setenv("QUANTGRAPH_PRICES", "prices.toml")
    status, out, err = command("run", "--signal-only", SHORT, "--headless", "--json")
    assert (status, out) == (2, "")
    assert err.startswith("bad_file: prices: prices.toml is not readable TOML")


def test_orders_without_approval_are_one_line(command):
    status, out, err = command("run", SHORT, "--approve", "--headless")
    assert status == 0, err
    (saved,) = Path("runs").glob("*/result.json")
    sessions = len(json.loads(saved.read_text(encoding="utf-8"))["assumptions"])
    assert sessions > 1
    assert f"{sessions} 个交易日的订单无人批准，均未发送" in out
    assert out.count("approval") == 0


def test_calls_and_tokens_are_those_that_were_made(command, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_LLM_CACHE", "full")
    english = "000341.SZ, 2-day average crosses above the 5-day average, 20240102 to 20240131"
    _, out, _ = command("run", "--signal-only", english, "--headless")
    assert "2 calls, 0 tokens, cost 0\n" in re.sub(" +\n", "\n", out)
    _, out, _ = command("run", "--signal-only", english, "--headless")
    assert "models          2 from the cache\n" in re.sub(" +\n", "\n", out)


def test_headless_takes_the_documented_defaults_and_lists_them(command):
    status, out, err = command("run", "帮我做个策略", "--headless", "--json")
    assert status == 0, err
    result = json.loads(out)
    kinds = [line.split(":")[0] for line in result["assumptions"]]
    assert kinds == ["symbol", "window", "strategy"]
    assert len(result["symbols"]) == 60
    assert result["window"] == {"start": "20250101", "end": "20251231"}
    assert result["strategy"]["name"] == "cross_up_sma_5_sma_20"


def test_the_summary_shows_account_benchmark_and_costs(command):
    status, out, _ = command("run", SENTENCE, "--headless")
    assert status == 0
    for word in ("合成的", "买入", "收益", "最大回撤", "夏普", "成交", "费用", "买入持有", "文件夹"):
        assert word in out, word
    status, out, _ = command("run", "SYN30, RSI(14) below 30 buy, above 70 sell, 2025", "--headless")
    assert status == 0
    for word in (
        "synthetic",
        "return",
        "max drawdown",
        "Sharpe",
        "trades",
        "costs",
        "buy and hold",
        "code: ",
        "folder",
    ):
        assert word in out, word
    assert re.search(r"signal +\d+ buys, \d+ sells ", out)
    assert re.search(r"^ +20250102 +\d{8} ", out, re.MULTILINE)  # the first session under the curves


def test_signal_writes_signal_and_strategy_and_does_not_trade(command):
    status, out, err = command("run", "--signal-only", SENTENCE, "--headless", "--json")
    assert status == 0, err
    result = json.loads(out)
    assert result["account"] is None
    folder = Path(result["run_dir"])
    assert pd.read_parquet(folder / "signal.parquet").shape[1] == 30
    assert "cross_up_sma_5_sma_20" in (folder / "strategy.py").read_text(encoding="utf-8")
    with Ledger(folder / "ledger.sqlite") as book:  # the record of what was asked is in there
        assert list(book.runs()) == []


def test_a_model_without_its_key_is_refused_at_once_and_leaves_no_run(command, tmp_path):
    status, out, err = command("run", SENTENCE, "--model", "nosuch", "--headless", "--json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "set OPENAI_API_KEY, or QUANTGRAPH_MODEL=keyless" in err
    assert not (tmp_path / "runs").exists()


def test_questions_are_asked_in_the_users_language(command):
    status, out, err = command("run", "999999.SZ 5日均线上穿20日均线买入 2025年", stdin="合成30成分股\n")
    assert status == 0, err
    assert "sample 中没有 999999.SZ" in err
    assert "平仓 " in out


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (
            "路径/价格.csv".encode(),
            r"is UTF-8, and Python reads and opens files in ascii here; leave PYTHONUTF8=0",
        ),
        (b"\xff.csv", "is not valid UTF-8 text"),
    ],
)
def test_an_encoding_that_is_not_utf8_is_named(tmp_path, argument, said):
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "quantgraph", "runs", "--out", argument],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
