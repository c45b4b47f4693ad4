"""Errors: each has a code, one line and a builtin that it is caught by."""

from __future__ import annotations

from quantgraph.errors import QuantGraphError


def test_every_error_has_a_code_a_line_and_a_builtin():
    import inspect

    from quantgraph import errors

    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, QuantGraphError)]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes) > 15
    for kind in classes:
        error = kind("what is wrong", where="here")
        assert str(error) == "what is wrong"
        assert error.line == f"{kind.code}: what is wrong"
        assert kind is QuantGraphError or len([b for b in kind.__mro__ if b.__module__ == "builtins"]) >= 3
