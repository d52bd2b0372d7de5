# dpwitness audit --command 'Rscript example.R wrong' --d0 '[0]' --d1 '[1]'
source(file.path(dirname(sub("--file=", "", grep("--file=", commandArgs(FALSE), value = TRUE))), "dpwitness.R"))

wrong <- "wrong" %in% commandArgs(TRUE)
scale <- if (wrong) 0.5 else 1

serve(
  function(dataset, size) {
    total <- sum(pmin(pmax(ifelse(is.nan(dataset), 0, dataset), 0), 1))
    round((total + scale * (rexp(size) - rexp(size))) * 1024) / 1024  # low bits that are not rounded leak
  },
  name = if (wrong) "half the noise" else "noisy sum", claim = "pure:1", domain = '{"kind":"Records","size":1,"low":0,"high":1}'
)
