"""Experiments: methods x problems x seeds give raw rows; tables and figures are made from rows alone."""
