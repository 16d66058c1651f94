"""Tests of covshift.nn (a package, so that its conftest and file names stand beside those of other folders)."""
