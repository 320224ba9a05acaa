"""The commands of `send-once`, one module each. A command reads, asks a pure function, and prints."""
