"""Opening a database: a SQLite file that bears crashes and other writers, or a server by its URL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError

from quantgraph._util.files import CHECK_DISK, storage_unavailable
from quantgraph.errors import BadFile, BadOption, StorageUnavailable

__all__ = ["create_tables", "open_engine", "storage_error"]

_BUSY_SECONDS = 60
_SCHEMA_LOCK = 0x7167
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


def open_engine(where: str | Path) -> Engine:
    """Open a file, made with its folder when it is not there, or a database by its URL.

    A file that may not be written, or whose folder may not, is opened for reading: nothing is put beside it.

    Raises
    ------
    BadOption
        If it is neither.
    BadFile
        If the folder cannot be made, or there is no driver for the database. The engine raises it too,
        whenever it finds no database there.
    StorageUnavailable
        From the engine, whenever the database cannot be reached, is locked, or cannot be written: what was
        begun may be tried again. A key that is there already stays an ``IntegrityError``.
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
        return _made(url, pool_pre_ping=True)  # the server may have been started anew
    if not url.database or url.database == ":memory:":
        raise BadOption("a database in memory would not survive its process; give a file", parameter="where")
    path = Path(url.database)
    if _only_readable(path):
        return _reading(url, path)
    engine = _made(url, connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _only_readable(path: Path) -> bool:
    return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _reading(url: URL, path: Path) -> Engine:
    """An engine that never writes, on a file beside which SQLite could not put its log and index.

    With both of them there SQLite reads what a living writer adds. With none the file is whole by itself. A
    log without its index, as a copy of a killed run has, is read from a copy in a temporary folder.
    """
    log, index = (path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))
    query, scratch = {"mode": "ro", "uri": "true"}, None
    if not (log.is_file() and log.stat().st_size):
        query["immutable"] = "1"
    elif not index.is_file():
        scratch = _copied(url, path, log)
    opened = (scratch or path.parent.absolute()) / path.name
    named = url.set(database=f"file:{quote(str(opened))}", query=query)
    engine = _made(named, place=url, connect_args={"timeout": _BUSY_SECONDS})
    if scratch is not None:
        weakref.finalize(engine, shutil.rmtree, scratch, ignore_errors=True)
    event.listen(engine, "connect", _without_driver_transactions)
    event.listen(engine, "begin", _begin)
    return engine


def _copied(url: URL, *parts: Path) -> Path:
    """A temporary folder with copies of files."""
    scratch = tempfile.mkdtemp(prefix="quantgraph-ledger-")
    try:
        for part in parts:
            shutil.copyfile(part, Path(scratch, part.name))
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise _unusable(url, error) from error
    return Path(scratch)


def _made(url: URL, *, place: URL | None = None, **options: Any) -> Engine:
    place = place or url
    try:
        engine = create_engine(url, **options)
    except (ArgumentError, ImportError) as error:
        raise _unusable(place, error) from error
    event.listen(engine, "handle_error", _named(place))
    return engine


def _named(url: URL) -> Callable[[ExceptionContext], None]:
    def raise_named(context: ExceptionContext) -> None:
        if context.is_pre_ping or isinstance(context.sqlalchemy_exception, IntegrityError):
            return
        error = context.original_exception
        raise storage_error(error, _place(url)) or _unusable(url, error)

    return raise_named


def _unusable(url: URL, error: BaseException) -> BadFile:
    where = _place(url)
    return BadFile(
        f"{where} cannot be used as a run's database: {_line(error)}; a SQLite file is wanted, or the URL of "
        "a database that can be reached, such as postgresql+psycopg://user@host/name",
        where=where,
    )


def _place(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def storage_error(error: BaseException, where: object) -> StorageUnavailable | None:
    """What a database driver's error says of the storage; None if it is about something else.

    Drivers are known by the names that PEP 249 gives their errors.
    """
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        mend = "another process holds it; end that" if code in _HELD else CHECK_DISK
        told = code in _HELD | _DISK
    else:
        names = {kind.__name__ for kind in type(error).__mro__}
        mend = "see that its server runs, can be reached and has room"
        told = bool(names & {"OperationalError", "InterfaceError"})
    return storage_unavailable(where, _line(error), mend) if told else None


def create_tables(engine: Engine, schema: MetaData) -> None:
    """Make the tables when they are not there; a database that has them is only read."""
    with engine.connect() as connection:
        found = inspect(connection)
        if all(found.has_table(name) for name in schema.tables):
            return
    with engine.execution_options(quantgraph_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":  # it lets two look for a table at once, and both make it
            connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
        schema.create_all(connection)


def _without_driver_transactions(connection: Any, _record: Any) -> None:
    connection.isolation_level = (
        None  # the driver would begin transactions late, and only for some statements
    )


def _durable(connection: Any, record: Any) -> None:
    _without_driver_transactions(connection, record)
    _patiently(connection, "PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL").close()


def _patiently(connection: Any, statement: str) -> None:
    """Execute a statement for which SQLite does not wait by itself while others open the same new file."""
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
    # A reader that turns writer fails at once when the file has moved on; a writer says so from the start.
    writes = connection.get_execution_options().get("quantgraph_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
