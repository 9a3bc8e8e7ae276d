library(testthat)
library(discreet)
test_check("discreet")
