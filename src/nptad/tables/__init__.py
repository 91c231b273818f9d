"""From any table to encoded rows and back; no torch in here."""
