"""Studies of papers, rerun: each published finding next to what comes out here."""
