"""An account of its own in whole cents and plain loops: the rule's docstring, written a second time.

Prices are integers in cents, None where there is none; nothing of quantgraph is used.
"""

from fractions import Fraction
from math import floor

STAMP_CUT = "2023-08-28"


def half_up(numerator, denominator):
    return (2 * numerator + denominator) // (2 * denominator)


def fees(side, notional, day):
    commission = max(500, half_up(notional * 25, 100_000))
    stamp = half_up(notional * (10 if day < STAMP_CUT else 5), 10_000) if side == "sell" else 0
    transfer = half_up(notional, 100_000)
    return commission + stamp + transfer


def band(code):
    if code.endswith(".BJ"):
        return 30
    return 20 if code[:3] in ("300", "301", "688", "689") else 10


def limits(code, pre_close):
    width = band(code)
    upper, lower = half_up(pre_close * (100 + width), 100), half_up(pre_close * (100 - width), 100)
    if not code.endswith(".BJ"):  # Shanghai and Shenzhen, 2023-04-10: at least a cent away
        upper, lower = max(upper, pre_close + 1), min(lower, pre_close - 1)
    return upper, max(1, lower)


def sizes(code):
    """Smallest buy, the step above it, and the most that one order may have."""
    if code.startswith(("688", "689")):
        return 200, 1, 100_000
    if code.endswith(".BJ"):
        return 100, 1, 1_000_000
    return 100, 100, 300_000 if code.startswith("30") else 1_000_000


def shares_that_fit(code, price, ticket, day):
    first, step, most = sizes(code)
    quantity = max(0, ticket) // (price * step) * step
    while quantity and quantity * price + fees("buy", quantity * price, day) > ticket:
        quantity -= step
    return min(quantity, most) if quantity >= first else 0


def trade(  # noqa: PLR0912, PLR0917
    days,
    codes,
    opens,
    closes,
    pre_closes,
    signal,
    cash,
    *,
    weights=None,
    max_positions=None,
    percent=None,
    reserve=(0, 1),
):
    """Cash, shares, value by session, fills and rejections of the rule; panels are lists of rows."""
    reserve = Fraction(*reserve)
    shares, entered, last_close = {}, {}, {}
    values, fills, rejections = [cash], [], []
    for t, day in enumerate(days):
        price = {code: opens[t][j] for j, code in enumerate(codes)}
        up_down = {code: limits(code, pre_closes[t][j]) for j, code in enumerate(codes)}

        leaving = []
        for code in sorted(shares):
            column = codes.index(code)
            for s in range(t - 1, entered[code] - 1, -1):
                if signal[s][column] in (1, -1):
                    if signal[s][column] == -1:
                        leaving.append(code)
                    break

        equity_before = cash + sum(
            n * (price[c] if price[c] is not None else last_close[c]) for c, n in shares.items()
        )
        for code in leaving:
            if price[code] is None:
                rejections.append((day, code, "suspended"))
            elif price[code] <= up_down[code][1]:
                rejections.append((day, code, "limit_down"))
            else:
                notional = price[code] * shares[code]
                if cash + notional - fees("sell", notional, day) < 0:
                    rejections.append((day, code, "insufficient_cash"))
                    continue
                cash += notional - fees("sell", notional, day)
                fills.append((day, code, "sell", shares.pop(code), price[code]))
                del entered[code]

        wanted = []
        if t > 0:
            gone = set(leaving)
            for code in sorted(codes):
                if signal[t - 1][codes.index(code)] == 1 and code not in shares and code not in gone:
                    if weights is None or code in weights:
                        wanted.append(code)
        slots = max_positions or (len(weights) if weights else min(10, len(codes)))
        wanted = wanted[: max(0, slots - len(shares))]
        if wanted:
            investable = floor(equity_before * (1 - reserve))
            if weights:
                tickets = [floor(investable * Fraction(*weights[code])) for code in wanted]
            elif percent:
                tickets = [floor(investable * Fraction(*percent))] * len(wanted)
            else:
                tickets = [investable // slots] * len(wanted)
            free = max(0, cash - (equity_before - investable))
            if sum(tickets) > free:
                total = sum(tickets)
                tickets = [cents * free // total for cents in tickets]
            for code, cents in zip(wanted, tickets):
                at = price[code] if price[code] is not None else last_close.get(code)
                quantity = shares_that_fit(code, at, cents, day) if at is not None else 0
                if not quantity:
                    continue
                if price[code] is None:
                    rejections.append((day, code, "suspended"))
                elif price[code] >= up_down[code][0]:
                    rejections.append((day, code, "limit_up"))
                else:
                    notional = quantity * price[code]
                    cash -= notional + fees("buy", notional, day)
                    shares[code], entered[code] = quantity, t
                    fills.append((day, code, "buy", quantity, price[code]))

        for j, code in enumerate(codes):
            if closes[t][j] is not None:
                last_close[code] = closes[t][j]
        values.append(cash + sum(n * last_close[c] for c, n in shares.items()))
    return cash, shares, values, fills, rejections
