"""Package whose own import fails, with a module that does not need it."""

raise ImportError("the package needs an older release of another one")
