"""`claim_many(100)` beside a hundred single claims, on the stores that can do a batch in one durable step."""

from __future__ import annotations

import itertools

from timing import folder, interleaved, median, rounds

from send_once import FileStore, Ledger, SQLiteStore

BATCH = 100


def main() -> None:
    keys = itertools.count()
    print("| store | 100 single claims, ms | claim_many(100), ms | ratio |")
    print("|---|---|---|---|")
    with folder() as place:
        for name, store in (("file", FileStore(place / "l.jsonl")), ("SQLite", SQLiteStore(place / "l.db"))):
            ledger = Ledger(store)

            def singles(ledger: Ledger = ledger) -> None:
                for _ in range(BATCH):
                    ledger.claim(f"{next(keys):064d}")

            def batch(ledger: Ledger = ledger) -> None:
                ledger.claim_many([f"{next(keys):064d}" for _ in range(BATCH)])

            taken = interleaved({"singles": singles, "batch": batch}, rounds(40))
            single, many = median(taken["singles"]) / 1000, median(taken["batch"]) / 1000
            print(f"| {name} | {single:.1f} | {many:.1f} | {many / single:.3f} |")
            ledger.close()


if __name__ == "__main__":
    main()
