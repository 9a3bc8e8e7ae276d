"""Run the command line as ``python -m discreet``."""

import runpy

runpy.run_module("discreet._cli", run_name="__main__")
