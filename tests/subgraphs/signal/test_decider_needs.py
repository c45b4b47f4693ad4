"""Whether the user said the rule that a model has read."""

import pytest

from quantgraph.subgraphs.signal._needs import rule_as_worded

ASKED = "dual agent on AAPL, MSFT, buy when RSI(14) is below 30, sell above 70, stop loss 8%, 2025"


@pytest.mark.parametrize(
    ("read", "text", "rule"),
    [
        ("buy when RSI(14) is below 30; sell above 70", ASKED, "buy when RSI(14) is below 30; sell above 70"),
        ("Buy when RSI(14)  is below 30.", ASKED, "Buy when RSI(14)  is below 30."),
        # In place of a paraphrase, and of what was added to the rule, the user's own words.
        ("go long if RSI < 30", ASKED, "buy when RSI(14) is below 30; sell above 70"),
        ("buy when RSI(14) is below 30, sell after five days", ASKED, "buy when RSI(14) is below 30; sell above 70"),
        ("RSI低于30时做多", "双代理，600519.SH，RSI低于30买入，2025年", "RSI低于30买入"),
        # Said in other words that do not trade: near enough to stay.
        ("follow the momentum", "dual agent on AAPL, follow momentum", "follow the momentum"),
        ("buy when the 5-day average crosses above the 20-day average", "dual agent on AAPL, MSFT, 2025", ""),
        ("5日均线上穿20日均线买入", "双代理，600519.SH，2025年1月", ""),
        ("", ASKED, ""),
    ],
)  # fmt: skip
def test_a_rule_is_the_users_or_nobodys(read, text, rule):
    assert rule_as_worded(read, text) == rule
