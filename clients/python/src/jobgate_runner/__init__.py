"""Runs the jobs of a jobgate gateway."""

from .job import Fail, Job, Output, Result, Retry
from .runner import Handler, Runner, RunnerError, run

__all__ = ["Fail", "Handler", "Job", "Output", "Result", "Retry", "Runner", "RunnerError", "run"]
