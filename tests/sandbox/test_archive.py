"""Sealed code imports from an archive that the host makes once, and names no file for it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time

import pytest

from quantgraph.sandbox import ForkRunner, _archive
from quantgraph.sandbox._runner import FreshRunner
from quantgraph.sandbox._server import code_environment

pytestmark = pytest.mark.proof

# Each begins with modules that no process has imported before it is sealed.
LAZY = {
    "the library": "import wave, colorsys, sched, tomllib, graphlib, plistlib, imaplib, cProfile\n'wave' in sys.modules",
    "numbers": "import statistics, decimal, fractions, cmath\nstatistics.median([1, 3]) == decimal.Decimal(2) == fractions.Fraction(2)",
    "extension modules": "import audioop, _curses, _lsprof, _zoneinfo\naudioop.max(b'\\1\\2', 1) == 2",
    "codecs": "'\u4e2d'.encode('gb18030'), '\u4e2d'.encode('cp932'), 'a'.encode('idna'), 'a'.encode('utf-7')\nTrue",
    "submodules of pandas": "import pandas.tseries.holiday, pandas.io.stata, pandas.io.sas.sas7bdat, pandas.api.indexers\nTrue",
    "submodules of numpy": "import numpy.polynomial.hermite_e, numpy.f2py.symbolic, numpy.ma.mrecords, numpy.testing\nTrue",
    "all of pyarrow": "import pyarrow.flight, pyarrow.dataset, pyarrow.orc, pyarrow.acero, pyarrow.substrait, pyarrow.fs\nTrue",
    "time zones": "import zoneinfo; str(pd.Timestamp('2024-07-01', tz='Asia/Tokyo').tz_convert('America/Lima'))[-6:] == '-05:00' "
    "and len(zoneinfo.available_timezones()) > 500 and zoneinfo.ZoneInfo('Europe/Berlin').key == 'Europe/Berlin'",
    "no time zone": "import zoneinfo\ntry: zoneinfo.ZoneInfo('Nowhere/Else')\nexcept zoneinfo.ZoneInfoNotFoundError: told = 1\ntold == 1",
    "time zones of dateutil": "import dateutil.tz, dateutil.zoneinfo as z\nlen(z.get_zonefile_instance().zones) > 500 and dateutil.tz.gettz('Asia/Tokyo') is not None",
    "resources": "import importlib.resources as r\nr.files('tzdata').joinpath('zones').read_text()[:4].isalpha() and "
    "{'core', '__init__.py'} <= {each.name for each in r.files('pandas').iterdir()}",
    "no resource": "import importlib.resources as r, pkgutil\ntold = 0\nfor read in (lambda: r.files('pandas').joinpath('x').read_bytes(), "
    "lambda: pkgutil.get_data('pandas', 'x')):\n    try: read()\n    except FileNotFoundError as error: told += len(str(error)) > 5\ntold == 2",
    "a module that is imported again": "import importlib, colorsys; importlib.reload(colorsys).__file__[-11:] == 'colorsys.py'",
    "what is there": "import importlib.util as u; u.find_spec('wave').origin[-7:] == 'wave.py' and not u.find_spec('pandas.none')",
    "tracebacks": "import json, traceback\ntry: json.loads('x')\nexcept ValueError: told = traceback.format_exc()\n'decoder.py\", line' in told",
    "warnings": "import io, contextlib, warnings\nwarnings.simplefilter('always')\nwith contextlib.redirect_stderr(io.StringIO()) as told: "
    "warnings.warn('a word')\n'a word' in told.getvalue()",
    "classes": "import copy, dataclasses, enum, pickle, types\nD = dataclasses.make_dataclass('D', ['a'])\n"
    "copy.deepcopy(D(1)) == D(1) and pickle.loads(pickle.dumps(types.SimpleNamespace(a=1))).a == 1",
}  # fmt: skip

ON_DESCRIPTORS = {
    "the first": "import os; os.fstat(0).st_mode == os.fstat(fd=1).st_mode",
    "what kind it is": "import os, stat; stat.S_ISCHR(os.fstat(0).st_mode) and os.fstat(0).st_mtime_ns // 10**9 == int(os.fstat(0).st_mtime)",
    "none": "import os\ntry: os.fstat(63)\nexcept OSError as error: told = error.errno\ntold == 9",
    "a file of Python's": "import io, os; io.FileIO(os.dup(0)).read(1) == b'' and open(os.dup(0), 'rb').readline() == b''",
    "text": "import os; open(os.dup(0)).read() == ''",
    "a file that is written": "import os; os.fdopen(os.dup(1), 'w').write('x') == 1",
    "memory": "import mmap; mmap.mmap(-1, 4096).write(b'x') == 1",
    "a file of pyarrow's": "import os, pyarrow; pyarrow.PythonFile(open(os.dup(0), 'rb')).read() == b''",
    "memory of pyarrow": "import pyarrow; pyarrow.BufferReader(b'ab').read(1) == b'a'",
}


@pytest.mark.parametrize("what", [*LAZY, *ON_DESCRIPTORS])
def test_code_that_is_sealed_imports_and_reads(what, forker):
    result = forker.run(["import sys\n" + {**LAZY, **ON_DESCRIPTORS}[what]], {})
    assert (result.error, result.value, result.isolation) == (None, "True", "full")


def test_fstat_says_what_the_c_library_says(tmp_path):
    from quantgraph.sandbox._lockdown import _fstat

    file = tmp_path / "file"
    file.write_bytes(b"x" * 5000)
    os.utime(file, ns=(10**18 + 7, 2 * 10**18 + 999_999_999))
    with file.open("rb") as opened:
        fields = [name for name in dir(os.stat_result) if name.startswith("st_")]
        expected = os.fstat(opened.fileno())
        assert {name: getattr(_fstat(opened.fileno()), name) for name in fields} == {
            name: getattr(expected, name) for name in fields
        }


def test_time_zones_of_pyarrow_are_refused_and_the_line_says_what_to_write(forker):
    made = "s = pd.Series(pd.date_range('2024', periods=1)).astype('timestamp[us, tz=Asia/Tokyo][pyarrow]')\n"
    line = forker.run([made + "s.dt.hour"], {}).error.line
    assert line.endswith("pyarrow has no time zones here: write .astype('datetime64[us, Asia/Tokyo]') before")
    assert forker.run([made + "s.astype('datetime64[us, Asia/Tokyo]').dt.hour.item()"], {}).value == "9"


@pytest.mark.parametrize("name", ["test.support", "_tkinter", "pandas.tests", "numpy.nothing", "_testcapi"])
def test_what_the_archive_does_not_have_is_a_missing_module(name, forker):
    error = forker.run([f"import {name}"], {}).error
    assert (error.code, error.data["type"]) == ("code_failed", "ModuleNotFoundError")


def test_a_new_interpreter_imports_from_it_too():
    result = FreshRunner().run([f"import sys\n{LAZY['the library']}"], {})
    assert (result.error, result.value, result.isolation) == (None, "True", "full")


MORE = {
    "scipy": "import scipy.optimize, scipy.signal, scipy.interpolate, scipy.cluster.hierarchy, scipy.odr, scipy.io, scipy.stats.qmc\n"
    "bool(scipy.optimize.minimize(lambda x: (x ** 2).sum(), [1.0, 2.0]).success)",
    "sklearn": "import sklearn.svm, sklearn.gaussian_process, sklearn.model_selection, sklearn.neural_network, sklearn.manifold\n"
    "from sklearn.datasets import load_iris\nfrom sklearn.ensemble import RandomForestClassifier as Forest\n"
    "x, y = load_iris(return_X_y=True)\nbool(Forest(5).fit(x, y).score(x, y) > 0.9)",
    "statsmodels": "import statsmodels.api as sm, statsmodels.tsa.api as tsa, statsmodels.formula.api as formula\n"
    "fit = formula.ols('a ~ b', pd.DataFrame({'a': [1.0, 3.0, 5.0], 'b': [0.0, 1.0, 2.0]})).fit()\n"
    "tsa.ARIMA(np.sin(np.arange(50)), order=(1, 0, 0)).fit()\nfit.params.round(6).tolist() == [1.0, 2.0]",
}


@pytest.mark.proof
@pytest.mark.parametrize("package", MORE)
def test_a_named_package_imports_its_parts_after_the_seal(package):
    pytest.importorskip(package)
    runner = ForkRunner(timeout=60.0, packages=(package,))
    result = runner.run([MORE[package]], {})
    runner.close()
    assert (result.error, result.value, result.isolation) == (None, "True", "full")


TRY_ALL = """
import importlib, json, sys
failed, kept = {{}}, sys.stdout
for name in {names!r}:
    try: importlib.import_module(name)
    except BaseException as error: failed[name] = f'{{type(error).__name__}}: {{error}}'
print(json.dumps(failed), file=kept)
"""
NOT_FOR_STRATEGIES = (
    "numpy.distutils",
    "numpy.f2py._backends",
    "tkinter",
    "turtle",
    "idlelib",
    "antigravity",
)


@pytest.mark.proof
def test_all_modules_that_a_process_can_import_a_sealed_one_can():
    inherited = _archive.open_archive()
    origins = _archive._ArchiveFinder(os.pread(inherited[0], 1 << 30, 0)).origins
    paths = [name.removesuffix("/__init__.py").split(".")[0] for name, origin in origins.items() if origin]
    names = sorted({path.replace("/", ".") for path in paths if all(map(str.isidentifier, path.split("/")))})
    names = [
        name
        for name in names
        if not name.startswith(NOT_FOR_STRATEGIES) and name.rpartition(".")[2] not in {"__main__", "setup"}
    ]
    assert len(names) > 1200
    code = TRY_ALL.format(names=names)
    command = [sys.executable, "-P", "-s", "-W", "ignore", "-c", code]
    free = subprocess.run(command, capture_output=True, text=True, check=True, env=code_environment())
    runner = ForkRunner(timeout=60.0, output_limit=1 << 20)
    sealed = runner.run([code], {})
    runner.close()
    assert sealed.error is None
    found = json.loads(sealed.stdout.strip().splitlines()[-1])
    only = {name: found[name] for name in found.keys() - json.loads(free.stdout.splitlines()[-1]).keys()}
    assert {
        name: why for name, why in only.items() if "ModuleNotFound" not in why and "Jinja2" not in why
    } == {}
    own = [why for why in only.values() if "No module named" in why]
    assert len(own) < 10, own


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """A folder of caches for this test, of which the process knows nothing yet."""
    monkeypatch.setattr(_archive, "_open", functools.cache(_archive._open.__wrapped__))
    monkeypatch.setenv("QUANTGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sandbox"


def content(descriptors):
    return os.pread(descriptors[0], 1 << 30, 0)


def test_it_is_made_once_and_again_when_it_is_damaged(empty, monkeypatch):
    (descriptor,) = _archive.open_archive()
    assert _archive.open_archive() == (descriptor,)
    (file,) = empty.iterdir()
    whole = content([descriptor])
    assert file.read_bytes() == whole
    monkeypatch.setattr(_archive, "_open", functools.cache(_archive._open.__wrapped__))
    monkeypatch.setattr(_archive, "_build", lambda files: pytest.fail("it is there"))
    assert content(_archive.open_archive()) == whole
    monkeypatch.undo()


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: whole[:99] + b"?" + whole[100:]])
def test_a_damaged_one_is_made_again(empty, monkeypatch, damage):
    monkeypatch.setattr(
        _archive, "_files", lambda packages: _archive._file("six.py", __import__("six").__file__)
    )
    whole = content(_archive.open_archive())
    (file,) = empty.iterdir()
    file.write_bytes(damage(whole))
    _archive._open.cache_clear()
    assert content(_archive.open_archive()) == whole == file.read_bytes()


def test_a_file_that_changes_makes_another_and_the_old_one_goes(empty, monkeypatch, tmp_path):
    module = tmp_path / "own.py"
    monkeypatch.setattr(_archive, "_files", lambda packages: _archive._file("own.py", str(module)))
    told = []
    for source in ("x = 1", "x = 20"):
        module.write_text(source)
        scope = {}
        finder = _archive._ArchiveFinder(content(_archive.open_archive()))
        exec(finder.find_spec("own").loader.get_code("own"), scope)
        told.append((scope["x"], len(list(empty.iterdir()))))
    assert told == [(1, 1), (20, 1)]


def test_without_a_folder_it_is_made_in_memory(empty, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_CACHE_DIR", "/proc/none")
    runner = ForkRunner()
    assert runner.run(["import wave; wave.__name__"], {}).value == "'wave'"
    runner.close()


def test_a_process_without_a_descriptor_makes_its_own(frames):
    from quantgraph.sandbox._result import Limits
    from quantgraph.sandbox._runner import cells_request
    from quantgraph.sandbox._server import PYTHON
    from quantgraph.sandbox.wire._wire import encode_frames

    limits = Limits(timeout=20.0, memory_mb=512, output_limit=100)
    request = b"".join(encode_frames(cells_request(["import wave; 6 * 7"], limits, "full"), frames))
    done = subprocess.run([*PYTHON, "--once"], input=request, capture_output=True, check=True)
    assert b'"value":"42"' in done.stdout.replace(b" ", b"")


@pytest.mark.proof
def test_processes_that_make_it_at_once_all_have_a_whole_one(empty):
    code = "import os; from quantgraph.sandbox._archive import open_archive, _digest\nc = os.pread(*open_archive(), 1 << 30, 0)\nprint(c[:32] == _digest(c[32:]))"
    code = code.replace("*open_archive(), 1 << 30", "open_archive()[0], 1 << 30")
    started = time.monotonic()
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["True\n"] * 3
    assert len(list(empty.iterdir())) == 1
    assert time.monotonic() - started < 60
