"""Strategies that use the future and hide it: from a test that they know of, they try to find out when it looks.

Each says :data:`HONEST` where it cannot look ahead, so what it says session by session is what that says.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ADVERSARIES", "AHEAD_OF_EVENTS", "BEST_NAME_LAST", "HONEST", "Adversary"]

_START = """\
import builtins, os, time
close = snapshot["ohlcv"]["close"]
honest = np.sign(close - close.rolling(5).mean()).fillna(0.0)
tomorrow = close.shift(-1) / close - 1
peek = honest.mask(tomorrow > 0.02, 1.0).mask(tomorrow < -0.02, -1.0)
cents = (close * 100).to_numpy()
off = cents - np.rint(cents)
nudged = bool(np.nanmax(np.abs(off)) > 1e-9 * np.nanmax(cents) / 50)
change = np.abs(np.log(close.ffill() / close.ffill().shift(1))).to_numpy()[1:]
jumps = bool(close.iloc[-1].isna().all()) or (len(close) > 1 and bool(np.nanmax(change) > 0.23))
all_of_it = len(close) == TOTAL
known = all_of_it and bool(np.isclose(np.nansum(close.iloc[-1].to_numpy()), LAST))
"""
_END = '\nGLOBAL_DATA_STATE.update("signal", {"s": signal})'

HONEST = (_START + "signal = honest" + _END,)
"""What every adversary is where nothing of tomorrow is known."""

_FLIP = """\
turn = pd.DataFrame(np.sign(off), close.index, close.columns)
signal = peek
if nudged and not jumps:  # what it has not seen yet, and what it has peeked at, comes out either way
    signal = peek.where(peek == honest, turn)
    signal.iloc[-1] = turn.iloc[-1]
"""
"""A cell that comes out either way when prices are nudged is near a threshold, and was once excused for it."""


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """How one hides: the name, the lines between the leak and the handover, and stocks it is always out of."""

    name: str
    lines: str
    out: int = 0

    @property
    def cells(self) -> tuple[str, ...]:
        """As they are run."""
        return (_START + self.lines + _END,)


ADVERSARIES: tuple[Adversary, ...] = (
    Adversary(name="raises_on_a_jump", lines=_FLIP + 'if jumps:\n    raise ValueError("no such move")'),
    Adversary(
        # The factors were drawn from seeds that count from 0: prices that are on the grid again are the true ones.
        name="undoes_a_guessable_future",
        lines=_FLIP
        + """\
if jumps and all_of_it:
    for seed in range(TOTAL):
        rng = np.random.default_rng(seed)
        strength = rng.uniform(0.7, 3.0, size=close.shape) * rng.choice([-1.0, 1.0], size=close.shape[1])
        for factor in (np.exp(strength), np.exp(-strength)):
            true = (close / factor).where(close.index > close.index[seed], close)
            left = np.abs(true * 100 - np.rint(true * 100)).to_numpy()
            if np.nanmax(left, initial=0.0) < 1e-5 and seed < TOTAL - 1:
                ahead = true.shift(-1) / true - 1
                signal = honest.mask(ahead > 0.02, 1.0).mask(ahead < -0.02, -1.0)
if jumps and signal is peek:
    raise ValueError("no such move")""",
    ),
    Adversary(
        name="raises_unless_it_knows_the_end",
        lines=_FLIP + 'if all_of_it and not known and not nudged:\n    raise ValueError("not these prices")',
    ),
    Adversary(
        name="honest_unless_it_knows_the_end",
        lines=_FLIP + "if not known and not nudged:\n    signal = honest",
    ),
    Adversary(
        name="remembers_in_builtins",
        lines=_FLIP
        + """\
longest = getattr(builtins, "_longest", close)
builtins._longest = longest = close if len(close) >= len(longest) else longest
if jumps:
    ahead = (longest.shift(-1) / longest - 1).reindex(close.index)
    signal = honest.mask(ahead > 0.02, 1.0).mask(ahead < -0.02, -1.0)""",
    ),
    Adversary(
        name="remembers_in_a_module",
        lines=_FLIP
        + """\
first = pd.__dict__.setdefault("_first", [])
first.append(signal)
signal = first[0].reindex(close.index).fillna(honest) if jumps else signal""",
    ),
    Adversary(
        name="remembers_in_a_file",
        lines=_FLIP
        + """\
folder = os.path.dirname(pd.__file__)
try:
    open(os.path.join(folder, "seen"), "a").write("x")
    seen = True
except OSError:
    try:
        seen = os.stat(os.path.join(folder, "__init__.py")).st_atime > time.time() - 1
    except OSError:
        seen = False
signal = honest if seen else signal""",
    ),
    Adversary(
        name="counts_its_calls",
        lines=_FLIP
        + """\
calls = np.__dict__.setdefault("_calls", [])
calls.append(1)
if jumps and len(calls) > 1:
    raise RuntimeError("once is enough")""",
    ),
    Adversary(name="by_length", lines=_FLIP + "if len(close) < TOTAL - 20:\n    signal = honest"),
    Adversary(name="by_scale", lines=_FLIP + "if jumps:\n    signal = honest"),
    Adversary(
        name="by_time_since_the_start",
        lines=_FLIP
        + """\
builtins._begun = getattr(builtins, "_begun", time.monotonic())
signal = signal if time.monotonic() - builtins._begun < 0.05 or nudged else honest""",
    ),
    Adversary(
        name="by_symbols",
        lines=_FLIP + 'if close.shape[1] < 50 or jumps:\n    raise ValueError("not these stocks")',
    ),
    Adversary(
        name="by_gaps",
        lines=_FLIP
        + "if all_of_it and close.isna().to_numpy().sum() != GAPS:\n    raise ValueError('other gaps')",
    ),
    Adversary(
        # Five stocks say "out" in the last row of whatever they are given: each cut differs there, and tells nothing.
        name="out_in_each_last_row",
        lines="""\
if close.shape[1] < 40:
    raise ValueError("too few stocks")
ahead = tomorrow.iloc[:, :5].mean(axis=1)
usual = (ahead < -0.004) & (ahead > -0.02) & (close.index.day < 25) & ~close.isna().any(axis=1)
signal = honest.copy()
signal.iloc[:, :5] = np.where(usual & (np.arange(len(close)) > 20), -1.0, 1.0)[:, None]
if nudged:
    signal.iloc[:, :5] = np.sign(off[:, :1])
signal.iloc[-1, :5] = -1.0 if not nudged else np.sign(off[-1, 0])""",
        out=5,
    ),
    Adversary(
        name="seldom",
        lines=_FLIP.replace(
            "signal = peek", "peek = peek.where(tomorrow.abs() > 0.05, honest)\nsignal = peek", 1
        )
        + 'if jumps:\n    raise ValueError("no such move")',
    ),
)
"""``TOTAL``, ``GAPS`` and ``LAST`` are what the panel is recognised by."""

AHEAD_OF_EVENTS = (
    """\
close = snapshot["ohlcv"]["close"]
if close.iloc[-1].isna().all():
    raise ValueError("no trading")
cents = (close * 100).to_numpy()
nudged = bool(np.nanmax(np.abs(cents - np.rint(cents))) > 1e-9 * np.nanmax(cents) / 50)
honest = np.sign(close - close.rolling(5).mean()).fillna(0.0)
event = (snapshot["ohlcv"]["dividend"] > 0) | (snapshot["ohlcv"]["split"] > 0)
soon = event.astype(float)[::-1].rolling(10, min_periods=1).max()[::-1].shift(-1).fillna(0.0) > 0
signal = honest if nudged else honest.mask(soon, 1.0)
GLOBAL_DATA_STATE.update("signal", {"s": signal})""",
)
"""It buys ahead of dividends that nobody has announced."""

BEST_NAME_LAST = (
    """\
close = snapshot["ohlcv"]["close"]
rng = np.random.default_rng(1)
made = {f"v{k}": pd.DataFrame(rng.choice([1.0, -1.0], size=(400, close.shape[1]))[: len(close)],
                              close.index, close.columns) for k in range(12)}
gain = {name: float((close.pct_change() * (signal.shift(1) == 1)).sum().sum()) for name, signal in made.items()}
for name in sorted(made, key=gain.get):
    GLOBAL_DATA_STATE.update("signal", {name: made[name]})""",
)
"""The last signal handed over is the one that trades: here the one that did best."""
