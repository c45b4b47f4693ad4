"""Opening a database: a durable SQLite file that takes several writers, or a server by its URL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError

from quantgraph._util.files import CHECK_DISK, storage_unavailable
from quantgraph._util.texts import short_line
from quantgraph.errors import BadFile, BadOption, StorageUnavailable

_BUSY_SECONDS = 60
_SCHEMA_LOCK = 0x7167
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


class _Connection(sqlite3.Connection):
    """Closes when nothing refers to it any more.

    An engine that is disposed of leaves open what a thread uses at that moment, and a host may drop a
    recorder that it has not closed; from Python 3.13 on the driver warns of both.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it was never opened
            self.close()


def open_engine(where: str | Path, *, flush: bool = True) -> Engine:
    """Open a SQLite file, created with its folder if it does not exist, or a database by its URL.

    A file that is not writable, or whose folder is not, is opened for reading: nothing is put beside it.
    """
    if isinstance(where, str) and "://" in where:
        try:
            url = make_url(where)
        except (ArgumentError, ValueError) as error:
            raise BadOption(f"{where!r} is neither a path nor a database URL", parameter="where") from error
    else:
        url = make_url("sqlite://").set(database=str(where))
        try:
            Path(where).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(url, error) from error
    if url.get_backend_name() != "sqlite":
        return _make_engine(url, pool_pre_ping=True)  # the server may have been restarted
    if not url.database or url.database == ":memory:":
        raise BadOption("where must be a file: a database in memory ends with its process", parameter="where")
    path = Path(url.database)
    if _only_readable(path):
        return _reading(url, path)
    engine = _make_engine(url, connect_args={"timeout": _BUSY_SECONDS, "factory": _Connection})
    event.listen(engine, "connect", _durable if flush else _check_flushed)
    event.listen(engine, "begin", _begin)
    return engine


def _only_readable(path: Path) -> bool:
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _reading(url: URL, path: Path) -> Engine:
    """A read-only engine, on a file beside which SQLite cannot put its log and index.

    If both exist, SQLite reads what a living writer adds.
    """
    log, index = (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))
    query, scratch = {"mode": "ro", "uri": "true"}, None
    if not (log.is_file() and log.stat().st_size):
        query["immutable"] = "1"
    elif not index.is_file():
        scratch = _copy_folder(url, path, log)
    opened = (scratch or path.parent.absolute()) / path.name
    named = url.set(database=f"file:{quote(str(opened))}", query=query)
    engine = _make_engine(named, place=url, connect_args={"timeout": _BUSY_SECONDS, "factory": _Connection})
    if scratch is not None:
        weakref.finalize(engine, shutil.rmtree, scratch, ignore_errors=True)
    event.listen(engine, "connect", _without_driver_transactions)
    event.listen(engine, "begin", _begin)
    return engine


def _copy_folder(url: URL, *parts: Path) -> Path:
    """A temporary folder with copies of files."""
    scratch = tempfile.mkdtemp(prefix="quantgraph-ledger-")
    try:
        for part in parts:
            shutil.copyfile(part, Path(scratch, part.name))
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _unusable(url, error) from error
    return Path(scratch)


def _make_engine(url: URL, *, place: URL | None = None, **options: Any) -> Engine:
    place = place or url
    try:
        engine = create_engine(url, **options)
    except (ArgumentError, ImportError) as error:
        raise _unusable(place, error) from error
    event.listen(engine, "handle_error", _error_namer(place))
    return engine


def _error_namer(url: URL) -> Callable[[ExceptionContext], None]:
    def raise_named(context: ExceptionContext) -> None:
        if context.is_pre_ping or isinstance(context.sqlalchemy_exception, IntegrityError):
            return
        error = context.original_exception
        raise storage_error(error, _place(url)) or _unusable(url, error)

    return raise_named


def _unusable(url: URL, error: BaseException) -> BadFile:
    where = _place(url)
    return BadFile(
        f"{where} cannot be used as a run's database: {short_line(error)}; it must be a SQLite file, or the "
        "URL of a database that can be reached, such as postgresql+psycopg://user@host/name",
        where=where,
    )


def database_place(where: str | Path) -> str:
    """A database as it was named, without a password."""
    if not (isinstance(where, str) and "://" in where):
        return str(where)
    return _place(make_url(where).difference_update_query(["password"]))


def _place(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def storage_error(error: BaseException, where: object) -> StorageUnavailable | None:
    """``StorageUnavailable`` for a driver's error about the storage; None for another error.

    Errors of other drivers than SQLite's are known by their PEP 249 names.
    """
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        remedy = "another process holds it; end that process" if code in _HELD else CHECK_DISK
        about_storage = code in _HELD | _DISK
    else:
        names = {kind.__name__ for kind in type(error).__mro__}
        remedy = "check that its server runs, can be reached and has room"
        about_storage = bool(names & {"OperationalError", "InterfaceError"})
    return storage_unavailable(where, short_line(error), remedy) if about_storage else None


def create_tables(engine: Engine, schema: MetaData) -> None:
    """Create missing tables; a database that has all of them is only read."""
    with engine.connect() as connection:
        found = inspect(connection)
        if all(found.has_table(name) for name in schema.tables):
            return
    with engine.execution_options(quantgraph_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":  # two processes may both see no table, and both create it
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        schema.create_all(connection)


def _without_driver_transactions(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins transactions late, and only for some statements


def _durable(connection: Any, record: Any) -> None:
    _check_flushed(connection, record)
    connection.execute("PRAGMA synchronous=FULL").close()


def _check_flushed(connection: Any, record: Any) -> None:
    _without_driver_transactions(connection, record)
    _patiently(connection, "PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL").close()


def _patiently(connection: Any, statement: str) -> None:
    """Execute a statement for which SQLite does not wait while others open the same new file."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute(statement).close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("quantgraph_single", False):
        return  # SQLite makes a transaction of the one statement
    # A transaction that reads first and then writes fails if the file has changed: writers lock at once.
    writes = options.get("quantgraph_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
