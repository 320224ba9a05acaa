"""`send-once compact`: make a ledger file small without forgetting a key."""

from __future__ import annotations

from send_once.audit import json_text
from send_once.commands import ledgers
from send_once.commands.context import OK, UNUSABLE, Invocation, Refusal
from send_once.commands.wording import counted
from send_once.terminal import harmless


def run(call: Invocation) -> int:
    (name,) = call.positionals(1, "one ledger file")
    address = ledgers.existing(name)
    if address.kind != "file":
        raise Refusal(
            f"compact is for ledger files; {harmless(address.shown)} keeps one row a key already. "
            "Its space is the database's own affair (VACUUM).",
            UNUSABLE,
            "not_supported",
        )
    older_than_ms = call.duration_ms("older-than")
    if not call.parsed.has("yes"):
        raise Refusal(
            f"compact rewrites {harmless(address.shown)}: what was sent shrinks to a line that still refuses a second "
            "send; provider ids, meta and earlier states of it go, and stay only in the old file, kept beside the new. "
            "Nothing was changed. Say --yes to do it, with --older-than 30d to spare what is younger.",
            UNUSABLE,
            "not_confirmed",
        )
    from send_once.stores.file import FileStore

    with FileStore(address.target, create=False) as store:
        done = store.compact(older_than=older_than_ms)
    if call.json:
        value = {"entries": done.entries, "tombstones": done.tombstones, "backup": done.backup}
        call.console.out(json_text({**value, "bytesBefore": done.bytes_before, "bytesAfter": done.bytes_after}))
    else:
        keys = counted(done.entries, "key", "keys")
        call.console.out(
            f"{keys}, {done.tombstones} of them shrunk; {done.bytes_before:,} bytes became {done.bytes_after:,}.\n"
            f"The old file is {harmless(done.backup)}. Remove it when you no longer need it.\n"
        )
    return OK
