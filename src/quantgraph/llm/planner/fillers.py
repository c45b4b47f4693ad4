"""Words that carry no trading content, and capitals that are no ticker.

What stands here is dropped without a trace, so a word that could change a rule (only, unless, again,
until, first, daily limit …) must not.
"""

from __future__ import annotations

import re

__all__ = ["FILLERS", "FILLERS_ZH", "NO_TICKERS"]

_FILL_ZH = (
    "请帮我", "帮我", "帮忙", "请问", "请", "我想要", "我想", "我要", "我们", "我", "你好", "您好", "您", "你", "想要", "想", "希望", "麻烦",
    "给我", "给", "对于", "对", "把", "将", "使用", "利用", "采用", "应用", "用", "基于", "根据", "按照", "按", "依据", "针对", "关于", "以",
    "在", "的", "得", "了", "吧", "呢", "啊", "谢谢", "时候", "时", "当", "如果", "假如", "若", "只要", "一旦", "则", "就", "便", "那么",
    "然后", "接着", "之后再", "再", "进行", "做", "写", "设计", "构建", "建立", "生成", "产生", "计算", "得到", "运行", "跑", "测试", "一下", "一个", "这个",
    "这只", "该", "其", "它们", "它", "股票池", "股票", "个股", "标的", "成分股", "中", "里", "内", "范围", "期间", "区间", "时间段", "时间",
    "从", "由", "为", "是", "值", "条", "指标", "处于", "位于", "出现", "形成", "发生", "创出", "创下", "创", "排名", "排序", "排列", "每天", "每日",
    "当天", "当日", "今日", "规则", "条件", "参数", "改为", "改成", "换成", "换为", "那些", "那", "公司", "a股", "元", "进入", "包含", "包括", "所有",
    "某", "些", "个", "帮", "来个", "搞个", "弄个", "一种", "一套", "一份", "一款", "简单", "基础", "基本", "经典", "普通", "常见", "常用", "标准", "看一看", "看看", "看", "的效果", "效果如何", "效果怎么样", "效果", "表现如何", "怎么样", "如何", "再试一次", "再试", "重试", "继续", "好的", "可以", "默认", "是的", "没错", "确认", "都", "请用", "于", "上述", "以下规则",
)  # fmt: skip
FILLERS_ZH = re.compile("|".join(sorted(map(re.escape, _FILL_ZH), key=len, reverse=True)))
"""Chinese fillers, the longest first."""

_FILL_EN = (
    "a according across against all also among an any apply are as at band bands based basic be been being "
    "both build by calculate can classic classical companies company compute condition conditions constituents "
    "continue could create creates daily day's default design did do does during each either equities "
    "equity every for from generate generates give has have having hello help hi hit hits i i'd i'll if "
    "in index indicator indicators into is it it's its itself just let let's level levels like make "
    "makes making me members my name names need needs new of ok okay on once one ones our own per "
    "period please produce rank ranked ranking ranks rated retry rule rules run s set sets shall "
    "share shares should simple so some sort sorted stock stocks standard strategy's symbol symbols test thank "
    "thanks that the their them there these they this those through ticker tickers to too try "
    "universe us use used using value values versus via vs want wants was we when whenever where "
    "which who whose will with would write yes you your "
)
FILLERS = frozenset(_FILL_EN.split())
"""English fillers, in lower case."""

_NO_TICKERS = (
    "us usd cny rmb etf st api csi sse szse ttm ok roe eps pnl atr cci adx obv vwap sar mtm roc bias wr dmi kama wma dema "
    "tema and not"
)
NO_TICKERS = frozenset(_NO_TICKERS.split())
"""Abbreviations of the field that are written in capitals."""
