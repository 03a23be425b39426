"""What a fitted model shows in a notebook or a script: a table, contact sheets, progress."""
