"""The report and figures of a run, made from its files. Does not import torch."""

from spice.report.page import renew_report, rewrite_report, write_report

__all__ = ["renew_report", "rewrite_report", "write_report"]
