"""From the files of a run to one page that can be looked at. Opens without torch."""

from spice.report.page import renew_report, write_report

__all__ = ["renew_report", "write_report"]
