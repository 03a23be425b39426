"""The steps of a run in order. The command line, Python and the benchmarks all combine the stages through here."""

from spice.pipeline.commands import cluster, refine, regroup, resume
from spice.pipeline.execute import NoPageWarning

__all__ = ["NoPageWarning", "cluster", "refine", "regroup", "resume"]
