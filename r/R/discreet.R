# The program 'discreet' does the work: its questions, guarantees, ledger and random numbers are used as they are.

program <- function() {
  named <- Sys.getenv("DISCREET", "discreet")
  found <- Sys.which(named)
  if (!nzchar(found)) {
    stop("the program '", named, "' is not on the path: pip install discreet, or set DISCREET to where it is",
         call. = FALSE)
  }
  unname(found)
}

said <- function(lines, kind) {
  for (line in lines[startsWith(lines, "{")]) {
    found <- tryCatch(jsonlite::fromJSON(line)[[kind]]$message, error = function(e) NULL)
    if (!is.null(found)) return(found)
  }
  NULL
}

call_program <- function(...) {
  output <- tempfile(fileext = ".json")
  errors <- tempfile(fileext = ".txt")
  on.exit(unlink(c(output, errors)))
  code <- system2(program(), shQuote(c(...)), stdout = output, stderr = errors)
  lines <- readLines(errors, warn = FALSE, encoding = "UTF-8")
  if (code != 0) {
    message <- said(lines, "error")
    stop(if (is.null(message)) paste(lines, collapse = "\n") else message, call. = FALSE)
  }
  warned <- said(lines, "warning")
  if (!is.null(warned)) warning(warned, call. = FALSE)
  paste(readLines(output, warn = FALSE, encoding = "UTF-8"), collapse = "\n")
}

written <- function(value) {
  if (is.numeric(value)) format(value, digits = 15, scientific = FALSE, trim = TRUE) else as.character(value)
}

# schema --------------------------------------------------------------------------------------------------------

column <- function(...) list(...)

schema <- function(..., n = NULL, person = NULL, per_person = NULL, strata = NULL, cluster = NULL) {
  columns <- list(...)
  if (length(columns) == 0 || is.null(names(columns)) || any(names(columns) == "")) {
    stop("name each column: schema(smoker = c('no', 'yes'), age = c(18, 95))", call. = FALSE)
  }
  declared <- list(n = n, person = person, per_person = per_person, strata = strata, cluster = cluster)
  declared <- c(declared[!vapply(declared, is.null, NA)], list(columns = lapply(columns, declared_column)))
  structure(declared, class = "discreet_schema")
}

declared_column <- function(value) {
  if (is.factor(value)) value <- levels(value)
  if (!is.list(value)) return(I(value))
  lapply(value, function(part) if (length(part) > 1) I(part) else part)
}

# study ---------------------------------------------------------------------------------------------------------

study <- function(data, schema, epsilon, delta = NULL, ledger, dataset) {
  if (!inherits(schema, "discreet_schema")) stop("schema must be made by schema()", call. = FALSE)
  folder <- tempfile("discreet-")
  dir.create(folder, mode = "0700")
  file <- file.path(folder, "schema.json")
  text <- jsonlite::toJSON(unclass(schema), auto_unbox = TRUE, digits = NA, null = "null")
  writeLines(enc2utf8(as.character(text)), file, useBytes = TRUE)
  made <- structure(list(data = records(data, folder), schema = file, ledger = ledger, dataset = dataset),
                    class = "discreet_study")
  datasets <- if (file.exists(ledger) || grepl("://", ledger, fixed = TRUE)) {
    tryCatch({ remaining(made); TRUE }, error = function(e) FALSE)
  } else FALSE
  if (!datasets) {
    unit <- if (!is.null(schema$person)) c("--unit", schema$person)
    call_program("ledger", "create", dataset, "--epsilon", written(epsilon), "--relation", relation_of(schema), unit,
                 if (!is.null(delta)) c("--delta", written(delta)), "--ledger", ledger, "--json")
  }
  made
}

relation_of <- function(schema) {
  public <- vapply(schema$columns, function(part) is.list(part) && isTRUE(part$public), NA)
  if (is.null(schema$n)) return("add-remove")
  if (any(public)) return("within-group")
  if (is.null(schema$person)) "replace-one" else "replace-person"
}

records <- function(data, folder) {
  if (is.character(data) && length(data) == 1) return(data)
  if (!is.data.frame(data)) stop("data must be a data.frame, a file, or the address of a database", call. = FALSE)
  plain <- lapply(data, function(values) {
    if (is.logical(values)) ifelse(values, "True", "False") else if (is.double(values)) {
      ifelse(is.na(values), NA, sprintf("%.17g", values))
    } else as.character(values)
  })
  file <- file.path(folder, "records.csv")
  frame <- as.data.frame(plain, check.names = FALSE, stringsAsFactors = FALSE)
  names(frame) <- names(data)
  utils::write.csv(frame, file, row.names = FALSE, na = "", fileEncoding = "UTF-8")
  file
}

remaining <- function(study) {
  text <- call_program("ledger", "show", study$dataset, "--ledger", study$ledger, "--json")
  jsonlite::fromJSON(text)
}

print.discreet_study <- function(x, ...) {
  cat("Study of", x$dataset, "\n")
  print(remaining(x)$remaining)
  invisible(x)
}

# questions -----------------------------------------------------------------------------------------------------

ask <- function(study, kind, columns, options, level) {
  file <- tempfile(fileext = ".json")
  on.exit(unlink(file))
  options <- options[!vapply(options, is.null, NA)]
  values <- vapply(options, function(value) paste(written(value), collapse = ","), "")
  flags <- if (length(options)) c(rbind(paste0("--", gsub("_", "-", names(options))), values))
  call_program(kind, study$data, study$schema, columns, flags, "--ledger", study$ledger,
               "--dataset", study$dataset, "--out", file, "--json")
  answer <- structure(list(document = readChar(file, file.size(file), useBytes = TRUE)),
                      class = "discreet_answer")
  answer$table <- as.data.frame(answer, level = level)
  answer
}

proportions <- function(study, ..., epsilon, level = 0.95) {
  named <- list(...)
  columns <- if (is.null(names(named))) named else named[names(named) == ""]
  ask(study, "proportions", unlist(columns), c(named[setdiff(names(named), "")], list(epsilon = epsilon)), level)
}

mean_ <- function(study, column, epsilon, ..., level = 0.95) {
  ask(study, "mean", column, list(epsilon = epsilon, ...), level)
}

quantiles <- function(study, column, epsilon, ..., level = 0.95) {
  ask(study, "quantiles", column, list(epsilon = epsilon, ...), level)
}

survival <- function(study, time, event, epsilon, ..., level = 0.95) {
  ask(study, "survival", time, list(event = event, epsilon = epsilon, ...), level)
}

regress <- function(study, formula, epsilon, ..., level = 0.95) {
  if (inherits(formula, "formula")) formula <- paste(deparse(formula, width.cutoff = 500L), collapse = " ")
  ask(study, "regress", formula, list(epsilon = epsilon, ...), level)
}

draw <- function(study, column, epsilon, ..., level = 0.95) {
  ask(study, "draw", column, list(epsilon = epsilon, ...), level)
}

network <- function(study, parents, epsilon, ..., level = 0.95) {
  ask(study, "network", parents, list(epsilon = epsilon, ...), level)
}

# answers -------------------------------------------------------------------------------------------------------

with_document <- function(answer, act) {
  file <- tempfile(fileext = ".json")
  on.exit(unlink(file))
  writeChar(answer$document, file, eos = NULL, useBytes = TRUE)
  act(file)
}

shown <- function(answer, ...) {
  text <- with_document(answer, function(file) call_program("show", file, "--json", ...))
  jsonlite::fromJSON(text)
}

as.data.frame.discreet_answer <- function(x, row.names = NULL, optional = FALSE, ..., level = 0.95) {
  table <- shown(x, "--level", written(level))$table
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(table) else table
}

summary.discreet_answer <- function(object, ..., level = 0.95) as.data.frame(object, level = level)

print.discreet_answer <- function(x, ...) {
  with_document(x, function(file) cat(call_program("show", file), sep = "\n"))
  invisible(x)
}

guarantee <- function(answer) jsonlite::fromJSON(answer$document)$release$guarantee

as_draws <- function(answer, size = 4000, seed = NULL) {
  found <- shown(answer, "--draws", written(size), if (!is.null(seed)) c("--seed", written(seed)))
  drawn <- matrix(as.numeric(found$draws$values), ncol = length(found$draws$names),
                  dimnames = list(NULL, found$draws$names))
  if (requireNamespace("posterior", quietly = TRUE)) posterior::as_draws_matrix(drawn) else as.data.frame(drawn)
}

save_answer <- function(answer, file) {
  if (file.exists(file)) stop("'", file, "' exists already; choose another name", call. = FALSE)
  writeChar(answer$document, file, eos = NULL, useBytes = TRUE)
  invisible(file)
}

report <- function(answers, file, title = NULL) {
  if (inherits(answers, "discreet_answer")) answers <- list(Result = answers)
  if (is.null(names(answers)) || any(names(answers) == "") || any(grepl("/", names(answers), fixed = TRUE))) {
    stop("name each answer, without slashes: report(list(shares = a, hours = b), file)", call. = FALSE)
  }
  folder <- tempfile("discreet-")
  dir.create(folder, mode = "0700")
  on.exit(unlink(folder, recursive = TRUE))
  documents <- file.path(folder, paste0(names(answers), ".json"))
  for (i in seq_along(answers)) writeChar(answers[[i]]$document, documents[i], eos = NULL, useBytes = TRUE)
  call_program("report", documents, "--out", file, if (!is.null(title)) c("--title", title))
  invisible(file)
}
