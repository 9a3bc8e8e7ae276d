"""The studio: a local web page for planning, releasing, budgeting and auditing without Python.

It needs the extra ``web`` (``pip install '.[web]'``) and serves this machine only. ``discreet studio``
starts it; ``docs/how-to/studio.md`` says what protects it.
"""
