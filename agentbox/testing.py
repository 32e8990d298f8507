"""The pytest plugin: opens adapters for the suites, by the same door that applications use."""
