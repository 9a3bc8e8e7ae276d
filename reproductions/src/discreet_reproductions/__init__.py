"""Tables and figures of the papers, made anew: a package per paper, a function of its settings per figure."""
