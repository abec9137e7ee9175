"""The data sets that workloads train on: listed, fetched and verified by one command."""
