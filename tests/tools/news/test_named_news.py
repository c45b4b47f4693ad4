"""Sources of news by name, with the keys of the settings."""

from __future__ import annotations

import pytest

from quantgraph.errors import BadOption
from quantgraph.settings import load_settings
from quantgraph.tools.news.named_news import NEWS_NAMES, named_news


def test_a_source_by_name():
    assert NEWS_NAMES == ("commit", "jina", "tushare")
    assert named_news("commit") is None
    for name in ("jina", "tushare"):
        source = named_news(name)
        assert source.name == name
        assert source.live


def test_the_key_is_that_of_the_settings(monkeypatch):
    monkeypatch.setenv("JINA_API_KEY", "jina-secret-4711")
    settings = load_settings()
    assert settings.jina_api_key.get_secret_value() == "jina-secret-4711"
    assert "4711" not in repr(settings) + repr(vars(named_news("jina")))


def test_another_name_is_refused():
    with pytest.raises(BadOption, match="news='google'; valid are commit, jina, tushare, or a NewsSource"):
        named_news("google")
