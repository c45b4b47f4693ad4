"""Traditional characters of trading words, as simplified ones."""

from __future__ import annotations

_TRADITIONAL = (
    "買賣線際價漲會與於進變動勢點開關盤時間個為據號見過還說無長後從業銀證創綜滬險國農興華聯機電車藥匯場額換總營財報贏虧損獲區"
    "續單雙強舊歲數標準檔兩萬億資產訊貴臺歷態現條並達東減權週極經結約組給絕維網緊縮執項類風餘預輪軌運選遞適陽陰隨隻難離靜頂順須頭題顯驗"
)
_SIMPLIFIED = (
    "买卖线际价涨会与于进变动势点开关盘时间个为据号见过还说无长后从业银证创综沪险国农兴华联机电车药汇场额换总营财报赢亏损获区"
    "续单双强旧岁数标准档两万亿资产讯贵台历态现条并达东减权周极经结约组给绝维网紧缩执项类风余预轮轨运选递适阳阴随只难离静顶顺须头题显验"
)
_TABLE = str.maketrans(_TRADITIONAL, _SIMPLIFIED)


def simplified(text: str) -> str:
    """The text with simplified characters where it has traditional ones; its length stays.

    >>> simplified("貴州茅台,5日均線上穿20日均線買入,下穿賣出")
    '贵州茅台,5日均线上穿20日均线买入,下穿卖出'
    """
    return text.translate(_TABLE)
