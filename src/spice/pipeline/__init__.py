"""The steps of a run in order: the one composition of the stages, for the command line, Python and the benchmarks."""

from spice.pipeline.commands import cluster, refine, regroup, resume
from spice.pipeline.execute import NoPageWarning

__all__ = ["NoPageWarning", "cluster", "refine", "regroup", "resume"]
