"""The attacks of benchmarks/attack.py, by kind."""
