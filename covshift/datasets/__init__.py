"""Data: the paper's toy and its nine tables, shifts made by hand, images, and the panel of 41 tasks."""

from covshift.datasets._encode import encode_kernel_inputs
from covshift.datasets._images import fetch_fashion_mnist, fetch_kuzushiji_mnist
from covshift.datasets._inventory import FileRecord, fetch_all, list_files, verify_all
from covshift.datasets._libsvm import fetch_libsvm
from covshift.datasets._panel import load_panel_tasks, make_panel_task
from covshift.datasets._rotate import rotate_images
from covshift.datasets._shift import make_biased_split
from covshift.datasets._toy import make_toy_regression
from covshift.datasets._uci import fetch_auto_mpg, fetch_bike_sharing, fetch_parkinsons, fetch_wine_quality

__all__ = [
    "FileRecord",
    "encode_kernel_inputs",
    "fetch_all",
    "fetch_auto_mpg",
    "fetch_bike_sharing",
    "fetch_fashion_mnist",
    "fetch_kuzushiji_mnist",
    "fetch_libsvm",
    "fetch_parkinsons",
    "fetch_wine_quality",
    "list_files",
    "load_panel_tasks",
    "make_biased_split",
    "make_panel_task",
    "make_toy_regression",
    "rotate_images",
    "verify_all",
]
