# Serve a function to dpwitness over standard input and output: docs/reference/protocol.md, version 1. Base R, this file alone.
#
#   serve(function(dataset, size) values, name = "mine")    values: `size` numbers, or a matrix of `size` rows
#
# dataset is a numeric vector or array. The generator is R's own, L'Ecuyer-CMRG, seeded for each batch: draw with runif, rnorm, ...
# An error is an output, by the name of its class. Print nothing to standard output.
serve <- function(f, name, version = "1", claim = NULL, domain = NULL) {
  input <- file("stdin", "rb")
  output <- file("/dev/stdout", "wb")
  on.exit({ close(input); close(output) })
  quoted <- function(text) {
    codes <- utf8ToInt(enc2utf8(as.character(text)))
    plain <- codes >= 32 & codes <= 126 & codes != 34 & codes != 92
    codes[codes > 65535] <- 65533
    paste0('"', paste0(ifelse(plain, intToUtf8(ifelse(plain, codes, 32), multiple = TRUE), sprintf("\\u%04x", codes)), collapse = ""), '"')
  }
  say <- function(..., block = NULL) {
    writeBin(charToRaw(paste0(..., "\n")), output)
    if (!is.null(block)) writeBin(as.double(block), output, size = 8, endian = "little")
    flush(output)
  }
  field <- function(line, key, form) {  # requests have no blanks
    found <- regmatches(line, regexec(paste0('"', key, '":', form), line))[[1]]
    if (length(found) < 2) NULL else as.numeric(strsplit(found[2], ",")[[1]])
  }
  more <- paste0(if (!is.null(claim)) paste0(',"claim":', quoted(claim)), if (!is.null(domain)) paste0(',"domain":', domain))
  say('{"protocol":1,"name":', quoted(name), ',"version":', quoted(version), ',"seedable":true,"datasets":["float64"],"outputs":["float64"]', more, "}")
  kept <- list()
  repeat {
    line <- readLines(input, n = 1, warn = FALSE)
    if (length(line) == 0) return(invisible())
    id <- field(line, "dataset", "(-?[0-9]+)")
    if (!is.null(id) && startsWith(line, '{"op":"dataset",')) {
      shape <- field(line, "shape", "\\[([0-9,]*)\\]")
      values <- readBin(input, "double", n = prod(shape), size = 8, endian = "little")
      if (length(shape) > 1) values <- aperm(array(values, rev(shape)))  # rows come first
      kept[[as.character(id)]] <- values
      next
    }
    size <- field(line, "size", "(-?[0-9]+)")
    words <- field(line, "seed", "\\[([0-9,]*)\\]")
    if (!startsWith(line, '{"op":"run",') || is.null(size) || length(words) != 4) {
      say('{"failed":"no request that is known"}')
    } else if (size < 1) {
      say('{"failed":"size must be at least 1"}')
    } else if (!(as.character(id) %in% names(kept))) {
      say('{"failed":"no dataset has this number"}')
    } else {
      seeds <- c(words, words[1] + words[3], words[2] + words[4]) %% 2147483646 + 1
      assign(".Random.seed", c(10407L, as.integer(seeds)), envir = globalenv())
      found <- tryCatch(f(kept[[as.character(id)]], size), error = function(error) error)
      if (inherits(found, "error")) {
        say('{"raised":', quoted(class(found)[1]), ',"text":', quoted(conditionMessage(found)), "}")
      } else {
        columns <- length(found) %/% size
        say('{"kind":"float64","rows":', format(size, scientific = FALSE), ',"columns":', columns, "}", block = if (is.matrix(found)) t(found) else found)
      }
    }
  }
}
