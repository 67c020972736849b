"""Figures and pages drawn from plain records, by the record's type."""

from deeplimits.report.html import html
from deeplimits.report.plot import plot

__all__ = ["html", "plot"]
