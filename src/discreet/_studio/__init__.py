"""The studio: a local page on which people plan, release, keep and audit a privacy budget without Python.

It needs the extra ``web`` (``pip install '.[web]'``) and serves this machine only. ``discreet studio``
starts it; ``docs/how-to/studio.md`` says what protects it.
"""
