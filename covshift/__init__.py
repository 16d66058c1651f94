"""covshift."""
