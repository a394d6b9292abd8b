"""The files that ``twopc init`` writes; texts, and no code that is run from here."""
