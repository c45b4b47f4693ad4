"""The numbers of closing texts: what is claimed, what is not, and what nothing explains. All texts are by hand."""

from __future__ import annotations

import time

import pytest

from quantgraph.agents.trader._closing_facts import (
    NumberFacts,
    claimed_numbers,
    numbers_in,
    unresolved_numbers,
)

# The account of the documented example: 10 AAPL, 5 MSFT and 8,500 of cash; 20 NVDA are bought at 145.2.
FACTS = NumberFacts(
    money=[12420.0, 8500.0, 5596.0, 2904.0, -2904.0, 3920.0, 6824.0],
    percents=[100 * 5596 / 12420, 100 * 6824 / 12420, 100 * 2904 / 8500],
    shares_of={"AAPL": [10, 10], "MSFT": [5, 5], "NVDA": [0, 20, 20]},
    money_of={
        "AAPL": [182.0, 184.3, 1820.0, 1843.0, -2.3],
        "MSFT": [420.0, 422.5, 2100.0, 2112.5, -2.5],
        "NVDA": [145.2, 144.0, 2904.0],
    },
    percents_of={
        "AAPL": [100 * (182.0 / 184.3 - 1), 100 * 1820 / 12420],
        "NVDA": [100 * (145.2 / 144.0 - 1), 100 * 2904 / 12420],
    },
    known=numbers_in("revenue of $94.9B, volume 48520000, change 0.025"),
    main=["AAPL", "MSFT", "NVDA"],
)
STAR = "688041.SH"

TRUE = [
    # The documented example's own.
    "Portfolio successfully updated:\n- Maintained AAPL: 10 shares\n- Maintained MSFT: 5 shares\n"
    "- Added NVDA: 20 shares (cost: $2,904)\n- Remaining cash: $5,596\n\nPortfolio is well-diversified "
    "across tech leaders in cloud, devices, and AI infrastructure.\n<FINISH_SIGNAL>",
    "stock price is down 1.2% today (182.0 vs 184.3), AAPL\n- NVIDIA has been trending up, currently at 145.2",
    "## Summary for 2025-10-15 (Oct 15, 2025)\n### Step 3 of 30: 3 positions held for 12 days",
    "1. AAPL 10 @ $182.00 = $1,820.00 (14.7%)\n2. NVDA 20 @ 145.20 = 2,904.00 (23.4 %)\n3. Cash 5596.00 (45.1%)",
    "The total value is about $12.4k; NVDA rose 0.83% and has a P/E of 25x, a 52-week high and an RSI14 above "
    "MA20. Apple's revenue was $94.9B; volume 48,520,000. S&P 500 and Nasdaq-100 fell in Q3 2025 by 2.5%.",
    "2025年10月15日：\n1、买入NVDA 20股，成交价145.20元，金额2,904元\n2、剩余现金5,596元，占45.1%\n共3只股票，第3步完成。",
    "No trades today. I looked at 20-30 companies, the top 10 holdings, GPT-5, H20, 5G and 3 reasons to wait.",
    "Invested $6,824 (54.9%) in 3 stocks on 10/15 at 09:30; see https://example.com/2025/a-7.html.",
    "| Symbol | Weight |\n|--------|--------|-------|--------|--------|\n| **Total** | 100% |\nMACD(12,26,9); 10/15/2025; P&L $0.00",
    "| AAPL | 10 | 182.00 | 1,820.00 |\n| NVDA | 20 | 145.20 | 2,904.00 |",
]
FALSE = [
    ("Remaining cash: $49,449", ["$49,449"]),
    ("Maintained AAPL: 12 shares", ["12 shares"]),
    ("NVDA was bought at $154.2 for $3,084", ["$154.2", "$3,084"]),
    ("AAPL is down 2.1% to 180.5", ["2.1%", "180.5"]),
    ("现金 55,520 元，持有 NVDA 200股", ["55,520 元", "200股"]),
    ("1. MSFT: 7 shares at 420.0\n2. Cash: 5,596", ["7 shares"]),
    ("Cash: 94.9", ["94.9"]),  # a number that a tool told of something else
    ("The portfolio is worth $13,000, 60% in stocks", ["$13,000", "60%"]),
]


@pytest.mark.parametrize("text", TRUE)
def test_a_true_text_has_no_finding(text):
    assert unresolved_numbers(text, FACTS) == []


@pytest.mark.parametrize(("text", "found"), FALSE)
def test_a_number_that_nothing_explains_is_found(text, found):
    assert unresolved_numbers(text, FACTS) == found


@pytest.mark.proof
@pytest.mark.parametrize(
    "part", ["|--------", "- ", "1,000,", "12 ", "a1-", "**", "1.", "(1)", "¥ ", "1 a b "]
)
def test_a_long_text_of_one_pattern_is_read_at_once(part):
    began = time.perf_counter()
    unresolved_numbers(part * (20_000 // len(part)) + " x", FACTS)
    assert time.perf_counter() - began < 5


def test_the_digits_of_a_code_are_no_claim():
    assert claimed_numbers(f"买入{STAR}，688041 继续持有", [STAR]) == []
    assert [each.written for each in claimed_numbers(f"{STAR} 300股", [STAR])] == ["300股"]


def test_a_number_may_be_off_by_half_a_unit_of_its_last_decimal():
    facts = NumberFacts(money=[2903.8])
    assert unresolved_numbers("paid $2,904", facts) == []
    assert unresolved_numbers("paid $2,904.00", facts) == []  # a ten-thousandth
    assert unresolved_numbers("paid $2,905", facts) == ["$2,905"]


def test_numbers_of_answers_are_read_as_they_are_written():
    assert numbers_in('{"close": 184.3, "volume": 52847600} revenue of $94.9B, 1,234.5') == {
        *(184.3, 52847600.0, 94.9, 94.9e9, 1234.5)
    }
