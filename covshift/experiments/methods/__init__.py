"""One method a file: `fit(draw, seed, **options)` gives a `Fitted`; files are found, nothing is registered."""
