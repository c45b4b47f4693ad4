"""Sources of news by name, with the keys of the settings."""

from __future__ import annotations

import pytest

from quantgraph.errors import BadOption, RunDiverged
from quantgraph.market import Moment
from quantgraph.settings import load_settings
from quantgraph.tools.news._sources import NEWS_NAMES, RecordedNews, named_news


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


def test_a_source_that_is_an_object_is_not_asked_again_without_it():
    stand_in = RecordedNews("mine", live=True)
    assert (stand_in.name, stand_in.live) == ("mine", True)
    with pytest.raises(RunDiverged, match="the news of 'mine' came from an object of the caller's"):
        stand_in.search("x", Moment.at("2025-10-15", "open"))
