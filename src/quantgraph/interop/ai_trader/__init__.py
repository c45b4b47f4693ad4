"""AI-Trader's ``position.jsonl``: read, written, verified against prices, imported into a ledger."""

from quantgraph.interop.ai_trader.position_file import PositionRecord, read_positions, write_positions
from quantgraph.interop.ai_trader.position_trades import PositionFill, fills_of, import_positions, records_of
from quantgraph.interop.ai_trader.position_verification import Verification, verify_positions

__all__ = [
    "PositionFill",
    "PositionRecord",
    "Verification",
    "fills_of",
    "import_positions",
    "read_positions",
    "records_of",
    "verify_positions",
    "write_positions",
]
