"""The benchmarks: Headwater side by side with its peers, run by `make bench`."""
