//! What is tested on a real control plane, and the control plane itself for all other tests.

#[cfg(test)]
mod audit_log;
#[cfg(test)]
mod build_script;
#[cfg(test)]
mod cordons;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod kills;
pub mod plane;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod site;
#[cfg(test)]
mod smoke;

#[cfg(test)]
use plane::{AuditEntry, ControlPlaneError, Program, Stage, is_running};
pub use plane::{ControlPlane, Controllers, eventually, shared};
