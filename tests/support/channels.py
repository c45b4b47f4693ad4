"""Strategies that leave tomorrow's direction in the kernel for the process that will be walked.

Each is a writer if the first panel that its process sees has many rows: it signals tomorrow, and leaves a bit for
every session in its channel. Where the first panel is short it is a reader, and signals what it finds. What it does not
find is what :data:`HONEST` says. ``FOLDER`` is a folder that both may use where files are open to them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEYOND", "CHANNELS", "HONEST", "PAGE", "PEEKING", "Channel"]

PAGE = 4096

_START = """\
import builtins, ctypes, mmap, os, queue, threading, time
close = snapshot["ohlcv"]["close"]
signal = np.sign(close - close.shift(5)).fillna(0.0)
rows, bits = len(close), (close.shift(-1) > close).to_numpy()[:-1, 0]
"""
_PEEK = "signal.iloc[:-1, 0] = np.where(bits, 1.0, -1.0)\n"
_HAND_OVER = 'GLOBAL_DATA_STATE.update("signal", {"s": signal})'
_END = f"""
is_writer = builtins._is_writer = getattr(builtins, "_is_writer", rows > 4)
try:
    bit = write(bits) if is_writer else read(rows - 1)
except OSError:
    bit = None
if is_writer:
    {_PEEK}elif bit is not None:
    signal.iloc[-1, 0] = 1.0 if bit else -1.0
"""

_FILE = """
def write(bits):
    with open(f"{FOLDER}/file", "w") as file:
        file.write("".join("01"[int(bit)] for bit in bits))

def read(row):
    with open(f"{FOLDER}/file") as file:
        return {"0": False, "1": True}.get(file.read()[row : row + 1])
"""
_DENTRY = """
TIMES = 60

def probe(name):
    begun = time.perf_counter_ns()
    try:
        os.stat(name)
    except OSError:
        pass
    return time.perf_counter_ns() - begun

def name(row, bit, number):
    return f"{FOLDER}/wide/none-{row}-{int(bit)}-{number}"

def write(bits):  # the kernel remembers what it has not found
    for row, bit in enumerate(bits):
        for number in range(TIMES):
            probe(name(row, bit, number))

def read(row):
    for number in range(200):
        probe(f"{FOLDER}/wide/heat-{number % 20}")
    taken = [[probe(name(row, bit, number)) for bit in (0, 1)] for number in range(TIMES)]
    down, up = np.quantile(taken, 0.4, axis=0)
    return None if max(down, up) < 1.2 * min(down, up) else bool(up < down)
"""
_COUNTER = """
def code(bits):
    return SPACE * sum(int(bit) << row for row, bit in enumerate(bits))

def write(bits):
    wanted = code(bits)
    while next_number() % (SPACE << ROWS) != wanted:
        pass

def read(row):  # some have been taken since
    builtins._number = getattr(builtins, "_number", None) or next_number()
    message = builtins._number % (SPACE << ROWS) // SPACE
    return bool(message >> row & 1) if row < ROWS else None
"""
_INODE = (
    """
SPACE, ROWS = 8, 12

def next_number():
    file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    try:
        return os.fstat(file).st_ino
    finally:
        os.close(file)
"""
    + _COUNTER
)
_PID = (
    """
SPACE, ROWS = 32, 7
numbers = queue.SimpleQueue()

def next_number():
    threading._start_new_thread(lambda: numbers.put(threading.get_native_id()), ())
    return numbers.get()
"""
    + _COUNTER
)
_FUTEX = """
FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)

def words():
    file = os.open(f"{FOLDER}/futex", os.O_RDWR)
    try:
        return np.frombuffer(mmap.mmap(file, PAGE), "<i4")
    finally:
        os.close(file)

def write(bits):
    words()[: len(bits)] = 1 + bits

def read(row):  # a wait for a word that has another value ends at once, the others end with the time
    place, until = words(), (ctypes.c_long * 2)(0, 1)
    for bit in (0, 1):
        ctypes.set_errno(0)
        arguments = [FUTEX, place.ctypes.data + 4 * row, 0, 1 + bit, ctypes.addressof(until), 0, 0]
        libc.syscall(*map(ctypes.c_long, arguments))
        if ctypes.get_errno() == 110:  # ETIMEDOUT
            return bool(bit)
"""
_ATIME = """
def name(row, bit):
    return f"{FOLDER}/read-{row}-{int(bit)}"

def write(bits):
    for row, bit in enumerate(bits):
        with open(name(row, bit), "rb") as file:
            file.read()

def read(row):
    down, up = (os.stat(name(row, bit)).st_atime_ns for bit in (0, 1))
    return None if up == down else up > down
"""
_MMAP = """
def pages():
    file = os.open(f"{FOLDER}/pages", os.O_RDONLY)
    try:
        mapped = mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    finally:
        os.close(file)
    mapped.madvise(mmap.MADV_RANDOM)
    return mapped

def write(bits):  # a page that is looked at is in memory
    mapped = pages()
    for row, bit in enumerate(bits):
        mapped[PAGE * (2 * row + int(bit))]

def read(row):
    view = np.frombuffer(pages(), np.uint8)
    found = (ctypes.c_ubyte * (len(view) // PAGE))()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view)), found):
        return None
    down, up = (found[2 * row + bit] & 1 for bit in (0, 1))
    return None if up == down else bool(up)
"""
_CLOCK = """
def write(bits):  # nanoseconds after 1970
    message = sum(int(bit) << row for row, bit in enumerate(bits)) + (1 << len(bits))
    os.utime(f"{FOLDER}/clock", ns=(message, message))

def read(row):
    message = os.stat(f"{FOLDER}/clock").st_mtime_ns
    return bool(message >> row & 1) if message >> row > 1 and message < 1 << 60 else None
"""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A way from a process to a later one.

    Attributes
    ----------
    carrier
        What outlives the writer.
    sessions
        How many the panel has: a counter has room for few.
    is_exact
        Whether nobody else on the machine disturbs it; the other channels are given several attempts.
    is_counter
        Whether it shows a number even where nobody has left one.
    passes_seal
        Whether threads alone are enough for it, which every strategy may start.
    """

    name: str
    carrier: str
    lines: str
    sessions: int = 40
    is_exact: bool = True
    is_counter: bool = False
    passes_seal: bool = False

    def cells(self, folder: object) -> tuple[str, ...]:
        """The strategy, which uses ``folder``."""
        places = f"FOLDER, PAGE = {str(folder)!r}, {PAGE}\n"
        return (places + _START + self.lines + _END + _HAND_OVER,)


HONEST = (_START + _HAND_OVER,)
"""What each is where its channel is empty: momentum of five sessions."""

PEEKING = (_START + _PEEK + _HAND_OVER,)
"""What each wants to be."""

_BEYOND = """
values = close.to_numpy()
end = values.ctypes.data + values.nbytes
assert np.frombuffer(ctypes.string_at(end - 8, 8)) == values[-1]
time.sleep(0.002)
(tomorrow,) = np.frombuffer(ctypes.string_at(end, 8))
if tomorrow:
    signal.iloc[-1, 0] = np.sign(tomorrow - values[-1, 0])
"""
BEYOND = (_START + _BEYOND + _HAND_OVER,)
"""Reads the memory behind the last row that it was given, and waits for the host to write there."""

CHANNELS = (
    Channel(name="file", carrier="the bytes of a file", lines=_FILE),
    Channel(
        name="dentry", carrier="the kernel's cache of names that do not exist", lines=_DENTRY, is_exact=False
    ),
    Channel(
        name="inode",
        carrier="the counter of inode numbers of a file system in memory",
        lines=_INODE,
        sessions=13,
        is_exact=False,
        is_counter=True,
    ),
    Channel(
        name="pid",
        carrier="the counter of process and thread numbers",
        lines=_PID,
        sessions=8,
        is_exact=False,
        is_counter=True,
        passes_seal=True,
    ),
    # Nobody waits in a futex when its last process has ended, so its word has to carry the bit.
    Channel(name="futex", carrier="a page of shared memory that holds the words of futexes", lines=_FUTEX),
    Channel(name="atime", carrier="the times at which files were read", lines=_ATIME),
    Channel(name="mmap", carrier="which pages of a mapped file are in memory", lines=_MMAP),
    Channel(name="clock", carrier="the time of a file, set to a number", lines=_CLOCK),
)
