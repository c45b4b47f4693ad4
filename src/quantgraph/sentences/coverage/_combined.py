"""The names of clauses, combined with and, or, not."""

from __future__ import annotations

import ast

from quantgraph._util.parsing import parse_code


def without_name(combined: str, name: str) -> str:
    """Return a combination of clauses without one of them; empty if nothing is left.

    >>> without_name("up and not quiet", "quiet"), without_name("a or (b and c)", "c"), without_name("up", "up")
    ('up', 'a or b', '')
    """

    def rest(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.BoolOp):
            kept = [each for each in map(rest, node.values) if each is not None]
            return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept) if kept else None
        if isinstance(node, ast.UnaryOp):
            return (inner := rest(node.operand)) and ast.UnaryOp(node.op, inner)
        return None if isinstance(node, ast.Name) and node.id == name else node

    body = parse_code(combined.strip()).body if combined else []
    left = rest(body[0].value) if body and isinstance(body[0], ast.Expr) else None
    return "" if left is None else ast.unparse(left)
