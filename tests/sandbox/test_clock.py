"""Generated code has no other clock than the moment that its data end at."""

from __future__ import annotations

import pytest

from quantgraph.market import Moment
from quantgraph.sandbox import open_prefix_run

TIMES = {
    "the second": "import time; t = time.gmtime(time.time())[:5]",
    "nanoseconds": "import time; t = time.gmtime(time.time_ns() // 10**9)[:5]",
    "a clock of the system": "import time; t = time.gmtime(time.clock_gettime(time.CLOCK_REALTIME))[:5]",
    "a coarse one": "import time; t = time.gmtime(time.clock_gettime_ns(5) // 10**9 + 1)[:5]",
    "fields": "import time; t = time.localtime()[:5]",
    "text": "import time; t = tuple(map(int, time.strftime('%Y %m %d %H %M').split()))",
    "ctime": "import time; t = time.strptime(time.ctime())[:5]",
    "asctime": "import time; t = time.strptime(time.asctime())[:5]",
    "datetime": "import datetime; t = datetime.datetime.now().timetuple()[:5]",
    "a name of it": "from datetime import datetime as d; t = d.today().timetuple()[:5]",
    "a zone": "import datetime; t = datetime.datetime.now(datetime.timezone.utc).timetuple()[:5]",
    "pandas": "t = pd.Timestamp.now().timetuple()[:5]",
    "pandas, in words": "t = pd.Timestamp('now').timetuple()[:5]",
    "pandas, a column": "t = pd.to_datetime(['now'])[0].timetuple()[:5]",
}


@pytest.mark.parametrize("what", TIMES)
def test_it_shows_the_close_of_the_last_session(forker, frames, what):
    with open_prefix_run(forker, [f"{TIMES[what]}; t"], frames) as steps:
        told = [steps.at(Moment.at(day)).value for day in ("2024-01-03", "2024-01-08")]
    assert told == ["(2024, 1, 3, 15, 0)", "(2024, 1, 8, 15, 0)"]


def test_today_is_the_last_session(forker, frames):
    code = "import datetime; str(datetime.date.today()), str(pd.Timestamp.today().normalize())[:10]"
    assert forker.run([code], frames).value == "('2024-01-08', '2024-01-08')"


def test_it_goes_on_and_what_is_asked_for_another_time_is_answered(forker, frames):
    code = (
        "import datetime, time\nbefore = time.time(); time.sleep(0.02); after = time.time()\n"
        "0.02 <= after - before < 10, time.gmtime(0)[0], time.strftime('%Y', time.gmtime(0)), time.ctime(0)[-4:], "
        "datetime.datetime.fromtimestamp(0).year, isinstance(pd.Timestamp.now(), datetime.datetime)"
    )
    assert forker.run([code], frames).value == "(True, 1970, '1970', '1970', 1970, True)"


def test_without_data_there_is_no_time(forker):
    assert forker.run(["import datetime; datetime.date.today().year"], {}).value == "1970"


def test_a_strategy_by_the_clock_is_the_same_whenever_it_runs(forker, frames):
    code = "import time; 3 + int(time.time()) % 10"
    assert len({forker.run([code], frames).value for _ in range(5)}) == 1
