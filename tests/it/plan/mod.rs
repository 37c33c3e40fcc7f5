//! The decision: what each situation leads to, the audit, random histories, kills.

mod audit;
mod batches;
mod builders;
mod due;
mod histories;
mod holds;
mod leftovers;
mod scale;
mod shown;
mod takeover;
mod visits;
