"""AI-Trader's files: ``position.jsonl`` read, written, verified and imported, and ``log.jsonl`` written."""

from quantgraph.interop.ai_trader.ledger_positions import (
    positions_of_results,
    records_of_session,
    symbols_of_results,
)
from quantgraph.interop.ai_trader.position_file import (
    PositionRecord,
    read_positions,
    record_line,
    write_positions,
)
from quantgraph.interop.ai_trader.position_trades import (
    PositionEvent,
    PositionFill,
    fills_of,
    import_positions,
    opening_record,
    records_of,
)
from quantgraph.interop.ai_trader.position_verification import Verification, verify_positions
from quantgraph.interop.ai_trader.session_log import LogForm, SessionMessage, session_log

__all__ = [
    "LogForm",
    "PositionEvent",
    "PositionFill",
    "PositionRecord",
    "SessionMessage",
    "Verification",
    "fills_of",
    "import_positions",
    "opening_record",
    "positions_of_results",
    "read_positions",
    "record_line",
    "records_of",
    "records_of_session",
    "session_log",
    "symbols_of_results",
    "verify_positions",
    "write_positions",
]
