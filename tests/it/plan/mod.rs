//! The decision: what each situation leads to, the audit, random histories, kills.

mod audit;
mod audit_leaving;
mod batches;
mod builders;
mod claims;
mod cordons;
mod deletion;
mod drain_table;
mod drains;
mod executors;
mod gpus;
mod histories;
mod holds;
mod hosts;
mod leftovers;
mod lifecycle_table;
mod protected;
mod pulls;
mod reboots;
mod scale;
mod selection;
mod shown;
mod taints;
mod takeover;
mod uninstalls;
mod visits;
