"""What is said at the end of a run that is not done: what happened, and what to do next."""

from __future__ import annotations

from quantgraph._texts import Note, say

__all__ = ["closing"]

_REWORD = Note(
    zh="请换一种说法、换代码或时间范围，或换一个模型，重新开始。",
    en="Begin again with other words, symbols or dates, or with another model.",
)
_BUDGETS = {
    "budget_calls": Note(zh="模型调用次数已到上限", en="the limit on model calls is reached"),
    "budget_tokens": Note(zh="token 用量已到上限", en="the limit on tokens is reached"),
    "budget_money": Note(zh="费用已到上限", en="the limit on money is reached"),
    "timeout": Note(zh="时间已到上限", en="the limit on time is reached"),
}
_RAISE = Note(
    zh="提高上限后可以继续，已付费的调用不会重做。",
    en="Raise it and resume: no call that was paid for is made again.",
)
_ENDINGS: dict[str, tuple[Note, Note]] = {  # all but ``done``
    "needs_answer": (
        Note(zh="有一个问题没有得到回答", en="a question was not answered"),
        Note(
            zh="请回答这个问题；提问次数用完时，请用一句完整的话重新开始。",
            en="Answer it; where no question is left, begin again with the whole sentence.",
        ),
    ),
    "max_retries": (Note(zh="多次尝试都失败了", en="every attempt failed"), _REWORD),
    "repeated_error": (Note(zh="同一个错误反复出现", en="the same error came again and again"), _REWORD),
    "no_progress": (Note(zh="执行在原地打转", en="the run went in circles"), _REWORD),
    **{because: (what, _RAISE) for because, what in _BUDGETS.items()},
    "causality_failed": (
        Note(
            zh="策略用到了未来数据，或无法证明没有用到",
            en="the strategy uses the future, or could not be proved not to",
        ),
        Note(
            zh="请改写规则，只用当时已知的数据，重新开始。",
            en="Begin again with a rule that uses only what was known at the time.",
        ),
    ),
    "data_unavailable": (
        Note(zh="取不到数据", en="the data cannot be had"),
        Note(
            zh="请检查代码、时间范围、令牌和网络；数据就绪后可以继续。",
            en="See to symbols, dates, token and network; resume once the data are there.",
        ),
    ),
    "cancelled": (
        Note(zh="运行被停止", en="the run was stopped"),
        Note(zh="可以随时继续。", en="It can be resumed."),
    ),
    "model_unavailable": (
        Note(zh="模型不可用", en="the model cannot be used"),
        Note(
            zh="请检查模型名、密钥和服务；恢复后可以继续。",
            en="See to its name, key and server; resume once it answers.",
        ),
    ),
}


def closing(because: str, why: str, language: str) -> str:
    """What happened and what to do next, with the line that says why, if there is one.

    Empty if ``because`` is none of the endings of a run that is not done.
    """
    if because not in _ENDINGS:
        return ""
    what, then = (note.text(language) for note in _ENDINGS[because])
    told = why.removeprefix(f"{because}: ").rstrip(".。")
    return say(
        language,
        zh=f"未完成（{because}）：{what}{'：' if told else ''}{told}。{then}",
        en=f"Not done ({because}): {what}{': ' if told else ''}{told}. {then}",
    )
