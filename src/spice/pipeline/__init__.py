"""The steps of a run in order: the one composition of the stages, for the command line, Python and the benchmarks."""

from spice.pipeline.execute import NoPageWarning, cluster, refine, resume

__all__ = ["NoPageWarning", "cluster", "refine", "resume"]
