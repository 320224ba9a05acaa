"""A sender is killed at the worst moment: the server has its message, and it does not know.

Run it with `make demo`. Real processes, a real mail server on loopback, a real SIGKILL. Exits 1
as soon as one claim of the story does not hold.
"""

from __future__ import annotations

import mailbox
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS = 80
WAIT_SECONDS_MAX = 20


class Story:
    """The stage: a directory with ledger and mailbox, and a server that runs until the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.maildir, self.hold = directory / "mailbox", directory / "hold"
        self.step = 0
        self.server = subprocess.Popen(
            [sys.executable, str(HERE / "mail_server.py"), str(self.maildir)], stdout=subprocess.PIPE, text=True
        )
        self.port = self.server_says()

    def server_says(self) -> str:
        """The server's next line; empty if it says nothing in time."""
        assert self.server.stdout is not None
        readable, _, _ = select.select([self.server.stdout], [], [], WAIT_SECONDS_MAX)
        return self.server.stdout.readline().strip() if readable else ""

    def tell(self, title: str, text: str) -> None:
        self.step += 1
        print(f"\n{f'{self.step}. {title} '.ljust(COLUMNS, '-')}\n")
        print(textwrap.fill(" ".join(text.split()), COLUMNS) + "\n")

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        print(f"  $ python {program} {' '.join(arguments)}")
        command = [sys.executable, str(HERE / program), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.directory)

    def run(self, program: str, *arguments: str) -> str:
        """What the program printed; it must end by itself and well."""
        process = self.start(program, *arguments)
        said = process.communicate(timeout=WAIT_SECONDS_MAX)[0].strip()
        print(f"  {said}")
        self.claim(process.returncode == 0, f"{program} ended well")
        return said

    def kill_while_sending(self, ledger: str) -> None:
        """Start the sender, wait until the server has taken the message, kill the sender."""
        self.hold.touch()
        process = self.start("send_reminder.py", self.port, ledger)
        self.claim(self.server_says() == "accepted", "the server has accepted the message")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_SECONDS_MAX)
        self.hold.unlink()
        self.claim(process.returncode == -signal.SIGKILL, "the sender was killed before it got the reply")

    def audit(self, *, exit_code: int, word: str) -> None:
        print("\n  $ send-once audit ledger.jsonl")
        done = subprocess.run(
            [sys.executable, "-m", "send_once", "audit", "ledger.jsonl"],
            capture_output=True,
            text=True,
            cwd=self.directory,
            env={**os.environ, "COLUMNS": str(COLUMNS - 4), "NO_COLOR": "1"},
            check=False,
        )
        print(textwrap.indent(done.stdout.strip("\n") + done.stderr, "  | ", lambda _line: True))
        self.claim(done.returncode == exit_code, f"the audit exits {exit_code}")
        self.claim(word in done.stdout, f"the audit says {word}")

    def copies(self, expected: int) -> None:
        found = len(mailbox.Maildir(self.maildir))
        self.claim(found == expected, f"copies in the mailbox: {found}")

    def claim(self, held: bool, claim: str) -> None:  # reads as a sentence at each call
        print(f"  [{'ok' if held else 'NOT SO'}] {claim}")
        if not held:
            raise SystemExit(f"\nThe demo failed: not so: {claim}.")

    def end(self) -> None:
        self.server.kill()
        self.server.communicate()


def guarded(story: Story) -> None:
    story.tell(
        "A guarded send, killed",
        """A program sends a reminder through a ledger. The mail server takes the message, and
        before its reply arrives the program is killed with SIGKILL. No cleanup, no last words.""",
    )
    story.kill_while_sending("ledger.jsonl")
    story.audit(exit_code=1, word="UNKNOWN")
    story.copies(1)

    story.tell(
        "It is run again",
        """As a supervisor, a cron job or a person would. The claim of the killed run is in the
        ledger; whether its message went out cannot be known from here, so nothing is sent.""",
    )
    story.claim(story.run("send_reminder.py", story.port, "ledger.jsonl") == "unknown", "the rerun is told: unknown")
    story.audit(exit_code=1, word="UNKNOWN")
    story.copies(1)

    story.tell(
        "Evidence settles it",
        """The mailbox is searched for the Message-ID that derives from the key. It is there.""",
    )
    story.claim(story.run("settle.py", "mailbox", "ledger.jsonl").startswith("1 sent"), "settled as sent")
    story.audit(exit_code=0, word="OK")

    story.tell("It is run once more", "Now the ledger knows.")
    story.claim(story.run("send_reminder.py", story.port, "ledger.jsonl") == "duplicate", "told: duplicate")
    story.audit(exit_code=0, word="OK")
    story.copies(1)


def unguarded(story: Story) -> None:
    story.tell("The same without a ledger", "The mailbox is emptied; the same program, the same kill, the same rerun.")
    mailbox.Maildir(story.maildir).clear()
    story.kill_while_sending("-")
    story.run("send_reminder.py", story.port, "-")
    story.copies(2)
    print("\nWith the ledger Ana got one copy; without it, two.")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="send-once-demo-") as directory:
        story = Story(Path(directory))
        try:
            guarded(story)
            unguarded(story)
        finally:
            story.end()


if __name__ == "__main__":
    main()
