there <- nzchar(Sys.which(Sys.getenv("DISCREET", "discreet")))

people <- data.frame(smoker = rep(c("never", "never", "former", "current"), 150),
                     age = rep(18 + (0:59), 10), insured = rep(c(TRUE, FALSE), 300), stringsAsFactors = TRUE)
declared <- schema(smoker = c("never", "former", "current"), age = c(18, 95), insured = c(FALSE, TRUE), n = 600)

new_study <- function(...) {
  study(people, declared, epsilon = 60, delta = "1e-6", ledger = tempfile(fileext = ".db"), dataset = "people", ...)
}

test_that("each question is answered as the data are", {
  skip_if_not(there, "the program discreet is not installed")
  made <- new_study()
  expect_warning(shares <- proportions(made, "smoker", epsilon = 20), "protects very little")
  expect_s3_class(shares$table, "data.frame")
  expect_equal(shares$table$mean, c(0.5, 0.25, 0.25), tolerance = 0.02)
  expect_true(all(shares$table$low < shares$table$mean & shares$table$mean < shares$table$high))
  expect_equal(guarantee(shares)$epsilon, "20")
  table <- proportions(made, "smoker", "insured", epsilon = 10)
  expect_equal(nrow(table$table), 6)
  expect_equal(mean_(made, "age", epsilon = 5)$table$mean[1], mean(people$age), tolerance = 0.1)
  middle <- quantiles(made, "age", probs = 0.5, epsilon = 5)$table
  expect_gte(nrow(middle), 1)
  fit <- regress(made, age ~ smoker, epsilon = 10, delta = "1e-7")
  expect_equal(fit$table$mean[1], unname(coef(lm(age ~ relevel(smoker, "never"), people))[1]), tolerance = 0.2)
})

test_that("survival curves and weighted shares are answered as the data are", {
  skip_if_not(there, "the program discreet is not installed")
  trial <- data.frame(days = rep(c(100, 300, 500, 700, 900), 200), status = rep(c("alive", "dead"), 500),
                      arm = rep(c("a", "b"), each = 500), share = rep(c(3, 1), each = 500))
  columns <- schema(days = c(0, 1000), status = c("alive", "dead"), arm = column(values = c("a", "b"), public = TRUE),
                    n = 1000)
  made <- study(trial, columns, epsilon = 60, ledger = tempfile(), dataset = "trial")
  expect_warning(curve <- survival(made, "days", "status", by = "arm", bins = c(0, 200, 400, 600, 800, 1000),
                                   epsilon = 20), "protects very little")
  expect_equal(curve$table$mean[c(1, 5)], c(0.894, 0.894), tolerance = 0.03)
  weighted <- schema(status = c("alive", "dead"), arm = c("a", "b"), share = column(weight = 4), n = 1000)
  made <- study(trial, weighted, epsilon = 60, ledger = tempfile(), dataset = "trial")
  shares <- proportions(made, "arm", epsilon = 10)$table
  expect_equal(shares$mean, c(0.75, 0.25), tolerance = 0.02)
  strata <- schema(status = c("alive", "dead"), arm = column(values = c("a", "b"), public = TRUE),
                   share = column(weight = 4), n = 1000, strata = "arm")
  made <- study(trial, strata, epsilon = 60, ledger = tempfile(), dataset = "strata")
  expect_equal(guarantee(proportions(made, "status", epsilon = 5))$relation, "within-group")
  trial$who <- rep(1:500, each = 2)
  people <- schema(status = c("alive", "dead"), n = 1000, person = "who", per_person = 2)
  made <- study(trial, people, epsilon = 60, ledger = tempfile(), dataset = "people")
  expect_equal(guarantee(proportions(made, "status", epsilon = 5))$relation, "replace-person")
})

test_that("draws are those of the posterior, and the same for one seed", {
  skip_if_not(there, "the program discreet is not installed")
  shares <- proportions(new_study(), "insured", epsilon = 5)
  drawn <- as_draws(shares, size = 500, seed = 1)
  expect_equal(dim(drawn), c(500, 2))
  expect_equal(rowSums(unclass(drawn)), rep(1, 500), ignore_attr = TRUE)
  expect_equal(unname(colMeans(drawn)), shares$table$mean, tolerance = 0.05)
  expect_identical(drawn, as_draws(shares, size = 500, seed = 1))
})

test_that("the ledger counts, refuses, and is joined again", {
  skip_if_not(there, "the program discreet is not installed")
  made <- new_study()
  expect_warning(proportions(made, "smoker", epsilon = 50), "protects very little")
  expect_error(proportions(made, "smoker", epsilon = 50), "budget|cap|left")
  again <- study(people, declared, epsilon = 60, delta = "1e-6", ledger = made$ledger, dataset = "people")
  expect_error(proportions(again, "smoker", epsilon = 50), "budget|cap|left")
})

test_that("mistakes are said in words of the program, and files are kept", {
  skip_if_not(there, "the program discreet is not installed")
  made <- new_study()
  expect_error(proportions(made, "smokr", epsilon = 1), "smokr")
  expect_error(schema(c("a", "b")), "name each column")
  expect_error(study(1, declared, epsilon = 1, ledger = tempfile(), dataset = "x"), "data.frame")
  shares <- proportions(made, "smoker", epsilon = 1)
  file <- tempfile(fileext = ".json")
  save_answer(shares, file)
  expect_error(save_answer(shares, file), "exists already")
  page <- tempfile(fileext = ".html")
  report(shares, page)
  expect_match(paste(readLines(page, warn = FALSE), collapse = ""), "smoker")
  several <- tempfile(fileext = ".html")
  report(list(shares = shares, again = shares), several, title = "Two answers")
  expect_match(paste(readLines(several, warn = FALSE), collapse = ""), "Two answers.*shares.*again")
  expect_error(report(list(shares, shares), several), "name each answer")
  expect_output(print(shares), "never")
})

test_that("a missing program is named", {
  old <- Sys.getenv("DISCREET", NA)
  Sys.setenv(DISCREET = "no-such-program")
  on.exit(if (is.na(old)) Sys.unsetenv("DISCREET") else Sys.setenv(DISCREET = old))
  expect_error(study(people, declared, epsilon = 1, ledger = tempfile(), dataset = "x"), "pip install discreet")
})
