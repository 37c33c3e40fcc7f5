//! The one integration-test binary.
mod agent;
mod api;
mod cli;
mod cluster;
mod cluster_edge;
mod control_plane;
mod daemon;
mod daemon_http;
mod demo;
mod fleet;
mod git;
mod manifest;
mod plan;
mod report;
mod scenario;
mod sim;
mod tidy;
