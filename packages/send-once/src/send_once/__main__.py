"""`python -m send_once` is the command line `send-once`."""

import sys

from send_once.cli import main

sys.exit(main())
