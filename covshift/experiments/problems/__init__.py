"""One problem a file: `draw(seed, **options)` gives a `Draw`; files are found, nothing is registered."""
