//! Scenario files on the embedded cluster.
