"""Edge values by type: numbers at the limits of other types, malformed texts, and dates at the limits of calendars and clocks."""

from __future__ import annotations

import datetime
import math

_POWERS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 127, 128)
INTEGERS = (0, 1, -1, 2, 3, 7, 10, *(n for p in _POWERS for n in (2**p - 1, 2**p, 2**p + 1, -(2**p), -(2**p) - 1)))
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 0.1, -0.5, 1.5, 2.5, 2.0, 10.0, 1 / 3),
    *(math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -5e-324, 2.2250738585072014e-308),
    *(float(2**p) for p in _POWERS if p not in (7, 8, 15, 16)),
    *(127.5, 128.0, 255.5, 256.0, -129.0, 32768.0, -32769.0, 2.0**53 + 2, -(2.0**63), -(2.0**31) - 1, 1e16, 1e17, 1e308, 1e-300),
)
TEXTS = (
    *("", "a", "b", " ", "A", "aa", "0", "1", "-1", "-0", "1.5", "1e400", "nan", "NaN", "inf", "null", "None", "True", "true", "false"),
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-13-01",
        "2024-00-10",
        "0000-01-01",
        "9999-12-31",
        "10000-01-01",
        "1969-12-31",
        "24/02/29",
        "20240229",
    ),
    *("2024-01-01T00:00:00", "2024-01-01T24:00:00", "2016-12-31T23:59:60", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+14:00"),
    *("2024-03-31T02:30:00", "12:00", "25:00", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "256", "128", "1_000"),
    *(
        "1,000",
        "0x10",
        "\u0661",
        "\u00e9",
        "e\u0301",
        "\u0130",
        "\u00df",
        "\U0001f600",
        "\x00",
        "\n",
        ",",
        '"',
        "'",
        "\\",
        "a\x00b",
        "a" * 300,
    ),
)
_DAYS = (
    "1970-01-01 0001-01-01 9999-12-31 1969-12-31 2024-02-29 2023-02-28 2023-03-01 1900-01-01 2000-02-29 2262-04-12 1677-09-20 2038-01-20"
)
DATES = tuple(map(datetime.date.fromisoformat, _DAYS.split()))
TIMES = tuple(datetime.time.fromisoformat(each) for each in ("00:00:00", "23:59:59.999999", "12:00:00", "00:00:00.000001", "02:30:00"))
DATETIMES = (
    *(datetime.datetime.combine(day, datetime.time()) for day in DATES),
    *(
        datetime.datetime.fromisoformat(f"{day}T{time}")
        for day in ("2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03")
        for time in ("01:30", "02:30")
    ),
    *(datetime.datetime.max, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2016, 12, 31, 23, 59, 59)),
    datetime.datetime(2262, 4, 11, 23, 47, 16, 854776),
)
DURATIONS = (
    *(datetime.timedelta(0), datetime.timedelta(microseconds=1), datetime.timedelta(microseconds=-1), datetime.timedelta(days=1)),
    *(datetime.timedelta.max, datetime.timedelta.min, datetime.timedelta(days=106752), datetime.timedelta(days=-106752)),
)
ZONES = (datetime.UTC, *(datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in (840, -720, 345)))
