"""Algorithm 1 of the paper: predictor and importance learned in one alternation."""
