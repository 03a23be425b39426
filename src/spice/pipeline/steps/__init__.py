"""One file per step: what it reads, which stage it calls, what it writes and reports."""
