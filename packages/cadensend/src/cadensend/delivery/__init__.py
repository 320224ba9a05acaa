"""The deliveries: one ledger entry for each (workspace, issue, reader, version), and the one door to a sender."""
