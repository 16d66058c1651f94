"""Tables of each experiment, made from its rows alone."""
