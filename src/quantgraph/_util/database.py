"""Opening a database: a durable SQLite file that takes several writers, or a server by its URL."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from sqlalchemy import Connection, Engine, MetaData, create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError

from quantgraph._util.files import CHECK_DISK, storage_unavailable, stored_file
from quantgraph._util.texts import short_line
from quantgraph.errors import BadFile, BadOption, StorageUnavailable

_BUSY_SECONDS = 60
_SCHEMA_LOCK = 0x7167
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_MOST_STEPS, _STRIDE = 1_000_000_000, 100_000
"""Steps of SQLite's machine that a reader's query may take, about a minute; how often they are counted."""
_MOST_VALUE, _MOST_OBJECTS, _OBJECT_WIDTH = 64 << 20, 1_000, 80
_COMPUTES = re.compile(r"\b(CHECK|GENERATED|AS)\b", re.IGNORECASE)  # "GENERATED"
_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}


class _Connection(sqlite3.Connection):
    """Closes when nothing refers to it any more.

    An engine that is disposed of leaves open what a thread uses at that moment, and a host may drop a
    recorder that it has not closed; from Python 3.13 on the driver warns of both.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it was never opened
            self.close()


def open_engine(
    where: str | Path, *, flush: bool = True, reads: MetaData | Collection[str] | None = None
) -> Engine:
    """Open a SQLite file, created with its folder if it does not exist, or a database by its URL.

    A file that is not writable, or whose folder is not, is opened for reading: nothing is put beside it.
    With ``reads``, a schema or the names of tables, anybody may have made the file: it is read alone, in a
    bounded time, if its tables are those that the schema makes. One that it lacks is empty.
    """
    if isinstance(where, str) and "://" in where:
        try:
            url = make_url(where)
        except (ArgumentError, ValueError) as error:
            raise BadOption(f"{where!r} is neither a path nor a database URL", parameter="where") from error
    else:
        url = make_url("sqlite://").set(database=str(where))
        try:
            if reads is None:
                Path(where).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(url, error) from error
    if url.get_backend_name() != "sqlite":
        # The server may have been restarted.
        access = {} if reads is None else {"postgresql_readonly": True}
        return _make_engine(url, pool_pre_ping=True, execution_options=access)
    if not url.database or url.database == ":memory:":
        raise BadOption("where must be a file: a database in memory ends with its process", parameter="where")
    path = Path(url.database)
    if reads is not None:
        return _guarded(url, path, reads)
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
    query, scratch = {"mode": "ro", "readonly_shm": "1", "uri": "true"}, None
    if not (log.is_file() and log.stat().st_size):
        query["immutable"] = "1"
    elif not index.is_file():
        scratch = _copy_folder(url, path, log)
        del query["readonly_shm"]  # the copy has no index yet
    opened = (scratch or path.parent.absolute()) / path.name
    named = url.set(database=f"file:{quote(str(opened))}", query=query)
    engine = _make_engine(named, place=url, connect_args={"timeout": _BUSY_SECONDS, "factory": _Connection})
    if scratch is not None:
        weakref.finalize(engine, shutil.rmtree, scratch, ignore_errors=True)
    event.listen(engine, "connect", _without_driver_transactions)
    event.listen(engine, "begin", _begin)
    return engine


def _guarded(url: URL, path: Path, reads: MetaData | Collection[str]) -> Engine:
    """A read-only engine on a file that anybody may have made."""
    real = path.resolve()
    if stored_file(real.parent, real.name) is None:
        raise BadFile(f"{path} is missing", path=str(path))
    for end in ("wal", "shm", "journal"):
        stored_file(real.parent, f"{real.name}-{end}")
    engine, made = _reading(url, real), _statements(reads) if isinstance(reads, MetaData) else {}

    def guard(connection: sqlite3.Connection, _record: Any) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
        _count_steps(connection)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}").close()
        missing = _check_objects(connection, path, made, {*made} or {*cast("Collection[str]", reads)})
        for statement in (made[name] for name in missing if name in made):
            if statement.startswith("CREATE TABLE"):
                connection.execute(statement.replace("CREATE", "CREATE TEMP", 1)).close()
        connection.execute("PRAGMA query_only=ON").close()

    def count(connection: Connection) -> None:
        _count_steps(cast("sqlite3.Connection", connection.connection.dbapi_connection))

    event.listen(engine, "connect", guard)
    event.listen(engine, "begin", count)
    return engine


def _count_steps(connection: sqlite3.Connection) -> None:
    """Let the next transaction of a connection take so many steps."""
    left = iter(range(_MOST_STEPS // _STRIDE))
    connection.set_progress_handler(lambda: next(left, None) is None, _STRIDE)


@cache
def _statements(schema: MetaData) -> dict[str, str]:
    """What SQLite keeps of the tables and indices of a schema, by name."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            schema.create_all(connection)
            rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
            return {name: " ".join(sql.split()) for name, sql in rows if not name.startswith("sqlite_")}
    finally:
        engine.dispose()


def _check_objects(
    connection: sqlite3.Connection, path: Path, made: Mapping[str, str], names: set[str]
) -> set[str]:
    """See that a file has tables and their indices alone, and ours as we make them; return what it lacks."""
    cursor = connection.execute("SELECT type, name, tbl_name, sql FROM main.sqlite_master")
    objects = cursor.fetchmany(_MOST_OBJECTS + 1)
    cursor.close()
    for kind, name, table, sql in objects:
        text, known = " ".join(str(sql or "").split()), str(name).casefold()
        ours = known in names or str(table).casefold() in names
        is_plain = kind in {"table", "index"} and not text.upper().startswith("CREATE VIRTUAL")
        is_made = text == made.get(known, text if not made and not _COMPUTES.search(text) else None)
        if not is_plain or len(objects) > _MOST_OBJECTS or (ours and text and not is_made):
            what = short_line(f"{kind} {name}", _OBJECT_WIDTH)
            raise BadFile(f"{path} is not read: its {what} is not as quantgraph makes it", path=str(path))
    return names - {str(name).casefold() for _, name, _, _ in objects}


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
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise BadFile(f"{_place(url)} is not read: a query of it takes too many steps")
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
