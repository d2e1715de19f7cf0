"""A seeded, rule-based search for one-edit repairs; run as `python try_edits ...` inside a sandbox."""
