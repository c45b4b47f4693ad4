"""A process that locks itself down, forks for each piece of code on stdin and tells what became of it.

``python lockdown_probe.py '{"user": 65534, "parent": true, "child": {"memory": …, "seconds": …}, …}'``, where
``together`` tries all codes in one child, ``once`` in the process itself, ``archive`` is a descriptor, ``files`` are opened before,
``without`` names what the kernel lacks, and ``thread`` starts one first.
"""

from __future__ import annotations

import _posixshmem
import ctypes
import errno
import json
import multiprocessing.popen_fork
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import talib

from quantgraph.sandbox import _lockdown as _linux
from quantgraph.sandbox import _lockdown as _seccomp
from quantgraph.sandbox import _lockdown as lockdown
from quantgraph.sandbox._archive import import_from_archive

# Codes may need them where the interpreter's own folder is closed to the user that they run as.
LOADED = (multiprocessing.popen_fork, subprocess, _posixshmem)
DESCRIPTORS = []
WITHOUT = {"landlock": {444, 445, 446}, "seccomp": {277, 317}}


def raw(number, *arguments):
    """A system call past every wrapper; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    answer = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(word) for word in arguments])
    if answer == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def take_away(names):
    """Make the calls of these names fail as on a kernel that does not have them."""
    numbers = set().union(*(WITHOUT[name] for name in names))
    original = _linux.call

    def call(name, *arguments):
        if name == "syscall" and arguments[0] in numbers:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        return original(name, *arguments)

    _linux.call = _seccomp.call = call


def namespace():
    index = pd.bdate_range("2023-01-02", periods=300)
    values = np.random.default_rng(1).random((300, 3))
    names = {"df": pd.DataFrame(values, columns=list("abc"), index=index), "raw": raw, "lockdown": lockdown}
    names["descriptor"] = DESCRIPTORS and DESCRIPTORS[0]
    return {**names, "np": np, "pd": pd, "talib": talib, "os": os, "sys": sys, "time": time, "ctypes": ctypes}


def outcome(code):
    try:
        scope = namespace()
        exec(code, scope)
        return ["fine", repr(scope.get("told"))]
    except BaseException as error:
        return [type(error).__name__, str(error)]


def sealed(codes, child):
    """What became of each code, tried one after the other in one child; all of them if it dies."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        if child:
            lockdown.seal_child(**child)
        told = json.dumps({name: outcome(code) for name, code in codes.items()}).encode()
        while told:
            told = told[os.write(theirs, told) :]
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        said = stream.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return json.loads(said) if said else {name: ["died", str(ended)] for name in codes}


def main(told):
    codes = json.load(sys.stdin)
    DESCRIPTORS.extend(os.open(file, os.O_RDONLY) for file in told.get("files", ()))
    if told.get("parent"):
        import_from_archive(told["archive"], ())
    if told.get("user"):
        os.setgroups([])
        os.setresgid(*[told["user"]] * 3)
        os.setresuid(*[told["user"]] * 3)
    sys.platform = told.get("platform", sys.platform)
    take_away(told.get("without", ()))
    if told.get("thread"):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if told.get("parent"):
        lockdown.seal_parent()
    if told.get("once"):
        lockdown.seal_child(**told["child"])
        json.dump({name: outcome(code) for name, code in codes.items()}, sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    shares = [codes] if told.get("together") else [{name: code} for name, code in codes.items()]
    outcomes = [sealed(share, told.get("child")) for share in shares]
    json.dump({name: said for share in outcomes for name, said in share.items()}, sys.stdout)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
