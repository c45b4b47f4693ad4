"""Strategies that look for a way out of their process: what one run knows, another is to be told.

Each knows tomorrow of every row but its last, and asks for that of its last row: :data:`HONEST` where nobody
answers. If somebody did, the whole panel and the prefixes would say the same.
"""

from __future__ import annotations

__all__ = ["HONEST", "TALKERS"]

_START = """\
import ctypes, os, threading, time
close = snapshot["ohlcv"]["close"]
honest = np.sign(close - close.rolling(3).mean()).fillna(0.0)
up = (close.shift(-1) > close).iloc[:-1, 0].to_numpy()
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *words):
    answer = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(word) for word in words])
    return answer if answer >= 0 else None

def soon(attempt, tries=20):
    for _ in range(tries):
        answer = attempt()
        if answer is not None:
            return answer
        time.sleep(0.002)

"""
_END = """
signal = honest.copy()
signal.iloc[:-1] = np.where(up, 1.0, -1.0)[:, None]
answer = ask(len(close) - 1)
if answer is not None:
    signal.iloc[-1] = 1.0 if answer else -1.0
GLOBAL_DATA_STATE.update("signal", {"s": signal})"""

HONEST = (_START + 'GLOBAL_DATA_STATE.update("signal", {"s": honest})',)
"""What every one is where nobody answers."""

_FUTEX = """
import numpy._core._multiarray_umath as library
FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
# A page of code is the same page of the same file in all processes.
start = ctypes.cast(ctypes.PyDLL(library.__file__).PyInit__multiarray_umath, ctypes.c_void_p).value & ~4095
words = np.ctypeslib.as_array((ctypes.c_int * 1024).from_address(start))

def place(row, bit):
    return words.ctypes.data + 4 * (2 * row + bit)

def wait(row, bit):  # whoever waits at a place says by it what comes
    until = (ctypes.c_long * 2)(1, 0)
    for _ in range(3):
        call(FUTEX, place(row, bit), 0, int(words[2 * row + bit]), ctypes.addressof(until), 0, 0)

for row in range(max(0, len(up) - 2), len(up)):
    threading.Thread(target=wait, args=(row, int(up[row])), daemon=True).start()

def ask(row):
    return soon(lambda: next((bool(bit) for bit in (0, 1) if call(FUTEX, place(row, bit), 1, 1, 0, 0, 0)), None))
"""
_CLOCK = """
def spin():
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass

if len(up) and up[-1]:
    threading.Thread(target=spin, daemon=True).start()

def clocks():
    read = {}
    for pid in range(max(1, os.getpid() - 30), os.getpid() + 30):
        try:
            read[pid] = time.clock_gettime(~pid << 3 | 2)
        except OSError:
            pass
    read.pop(os.getpid(), None)
    return read

def ask(row):
    before = clocks()
    time.sleep(0.02)
    after = clocks()
    return any(after[pid] - before[pid] > 0.005 for pid in before.keys() & after.keys()) if before else None
"""
TALKERS = {name: (_START + lines + _END,) for name, lines in {"futex": _FUTEX, "clock": _CLOCK}.items()}
"""By the way that they try."""
