"""Tables 1, 4, 5, 6 and 7 of the BalanceRoute paper: mean gap, TPOT P95 [ms], tokens/s."""

from fractions import Fraction
from typing import NamedTuple


class Row(NamedTuple):
    """One method, or one configuration, on one trace and cluster."""

    imbalance: int
    tpot: Fraction
    throughput: Fraction


def _row(imbalance: int, tpot: str, throughput: str) -> Row:
    return Row(imbalance, Fraction(tpot), Fraction(throughput))


BASELINES = ("Random", "RR", "P2C", "JSQ")
DEPLOYED = ("BR-H Survival", "BR-H ExactMatch")
#: The oracle in two settings, as its rows come.
ORACLE = ("BR-H oracle, first", "BR-H oracle, second")
_NAMES = (*BASELINES, "BR-0", *ORACLE, *DEPLOYED)

#: Table 1, G = 8.
PROPRIETARY = dict(
    zip(
        _NAMES,
        (
            _row(438_225, "85.2", "811"),
            _row(254_798, "83.2", "847"),
            _row(262_940, "84.0", "836"),
            _row(215_110, "83.2", "843"),
            _row(51_927, "79.3", "943"),
            _row(23_975, "78.0", "1022"),
            _row(23_577, "78.0", "1029"),
            _row(40_757, "78.7", "979"),
            _row(36_277, "78.8", "977"),
        ),
        strict=True,
    )
)
AZURE = dict(
    zip(
        _NAMES,
        (
            _row(146_564, "90.3", "706"),
            _row(110_049, "89.1", "771"),
            _row(109_033, "89.3", "794"),
            _row(104_737, "89.3", "785"),
            _row(54_051, "83.3", "854"),
            _row(37_831, "78.1", "951"),
            _row(35_301, "77.3", "957"),
            _row(44_010, "82.1", "893"),
            _row(38_496, "82.3", "909"),
        ),
        strict=True,
    )
)

#: Tables 4, 2 and 5: by the number of workers.
SCALING = {
    4: {
        "Random": _row(80_118, "66.30", "364.7"),
        "RR": _row(68_108, "65.27", "365.7"),
        "P2C": _row(64_012, "65.40", "366.4"),
        "JSQ": _row(75_326, "66.45", "365.4"),
        "BR-0": _row(9_711, "63.19", "407.1"),
        "BR-H oracle": _row(6_576, "62.52", "415.3"),
    },
    8: {
        "Random": _row(438_225, "85.15", "810.5"),
        "RR": _row(254_798, "83.16", "846.7"),
        "P2C": _row(262_940, "84.01", "836.3"),
        "JSQ": _row(215_110, "83.20", "842.8"),
        "BR-0": _row(51_927, "79.32", "942.5"),
        "BR-H oracle": _row(23_577, "78.04", "1028.9"),
    },
    16: {
        "Random": _row(638_062, "77.80", "923.6"),
        "RR": _row(616_089, "77.91", "925.3"),
        "P2C": _row(688_283, "77.46", "927.3"),
        "JSQ": _row(675_607, "77.40", "926.6"),
        "BR-0": _row(215_170, "74.92", "1117.8"),
        "BR-H oracle": _row(117_067, "72.04", "1247.4"),
    },
}
#: Table 5, the oracle's other setting.
OTHER_ORACLE_16 = _row(123_700, "72.15", "1251.1")

#: Tables 6 and 7: by the number of workers, then (β, γ) in percent.
SWEEPS = {
    8: {
        (1, 90): _row(32_304, "78.120", "986.41"),
        (24, 90): _row(24_706, "77.933", "1022.67"),
        (48, 90): _row(25_608, "77.517", "1042.61"),
        (96, 90): _row(31_862, "79.460", "945.41"),
        (48, 50): _row(28_327, "78.040", "1024.04"),
        (48, 70): _row(26_599, "77.611", "1020.78"),
        (48, 100): _row(29_318, "77.310", "1026.77"),
    },
    16: {
        (1, 90): _row(104_229, "71.583", "1256.30"),
        (24, 90): _row(117_879, "72.198", "1248.51"),
        (48, 90): _row(118_396, "72.610", "1255.77"),
        (96, 90): _row(112_771, "72.260", "1256.17"),
        (48, 50): _row(116_074, "72.227", "1247.32"),
        (48, 70): _row(109_763, "71.114", "1256.53"),
        (48, 100): _row(127_207, "73.167", "1243.79"),
    },
}
