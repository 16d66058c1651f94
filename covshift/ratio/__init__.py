"""Estimators of the importance p_target / p_source."""
