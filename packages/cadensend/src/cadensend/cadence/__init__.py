"""When lessons are due: pure rules over dates, wall times and IANA zones. Values and `now` in, values out.

Rhythm ── dates ──► Timetable ── wall time, zone ──► Slot (an instant, and how it came about)
                                                      │
                   catch_up, place: who waits, from when ──► Placement of each lesson
"""

from cadensend.cadence.catchup import CatchUp, Placement, Verdict, Waiting, catch_up
from cadensend.cadence.moves import Move, moves, place, would_move
from cadensend.cadence.rhythms import (
    Daily,
    EveryDays,
    MonthlyByDate,
    MonthlyByWeekday,
    OnWeekdays,
    Rhythm,
    RhythmError,
    Weekday,
    Weekdays,
    rhythm_from_json,
)
from cadensend.cadence.timetables import Slot, Timetable, for_reader
from cadensend.cadence.zones import Moment, Shift, ZoneError, moment, zone_data_version, zone_of

__all__ = [
    "CatchUp",
    "Daily",
    "EveryDays",
    "Moment",
    "MonthlyByDate",
    "MonthlyByWeekday",
    "Move",
    "OnWeekdays",
    "Placement",
    "Rhythm",
    "RhythmError",
    "Shift",
    "Slot",
    "Timetable",
    "Verdict",
    "Waiting",
    "Weekday",
    "Weekdays",
    "ZoneError",
    "catch_up",
    "for_reader",
    "moment",
    "moves",
    "place",
    "rhythm_from_json",
    "would_move",
    "zone_data_version",
    "zone_of",
]
