"""THE PAPER'S EQUATIONS: pure functions, tensors in, tensors out. Torch and nothing else."""
