"""``python -m discreet`` is the program of the room above all others."""

import runpy

runpy.run_module("discreet._cli", run_name="__main__")
