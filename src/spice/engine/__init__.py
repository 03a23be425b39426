"""How to run, not what to learn: devices, processes, schedules, checkpoints."""
