"""THE PAPER'S THREE STAGES, one file each."""
