//! The decision: what each situation leads to, the audit, random histories, kills.

mod audit;
mod builders;
mod due;
mod histories;
mod visits;
