"""The stepwise agent without a key on real prices: killed, resumed and replayed, whatever the order of threads."""

import pytest
from load_script import load_script

pytestmark = pytest.mark.proof

STOCKS = ["600519.SH", "601318.SH", "600036.SH", "601899.SH", "600900.SH"]


@pytest.fixture(scope="module")
def checked(shared_data, tmp_path_factory, request):
    runs = load_script(request.path.with_name("execution_runs.py"))
    return runs.check(
        tmp_path_factory.mktemp("execution"),
        kills=2,
        seed=7,
        sentence=f"execution agent on {', '.join(STOCKS)}, 20250506 to 20250515",
        source=str(shared_data / "ai-trader" / "a_share"),
        model="keyless",
    )


def test_it_ends_as_the_run_that_was_left_alone(checked):
    assert checked["kills"] >= 1
    assert len(checked["sessions"]) == 8  # 6 May is the first session after the holidays


def test_each_symbol_has_its_steps_in_each_session_and_each_of_them_once(checked):
    places = [(row[2], row[3], row[4]) for row in checked["rows"]]
    # A buy of less than a lot is answered, and then held.
    refused = [row for row in checked["rows"] if row[5] == "decision" and row[7] and "error" in row[7]]
    assert refused
    assert len(set(places)) == len(places) == 8 * len(STOCKS) * 5 + len(refused)
    assert {row[8][:10].replace("-", "") for row in checked["rows"]} == {
        session[:10].replace("-", "") for session, *_ in checked["sessions"]
    }


def test_something_is_traded(checked):
    assert any(outcomes for _, _, outcomes, _ in checked["sessions"])
