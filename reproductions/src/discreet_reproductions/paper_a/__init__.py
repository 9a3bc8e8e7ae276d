"""Paper A: LSZhang, LSDim, LSHist, EHD, EHDL and EHDS, and what it states about their accuracy."""
