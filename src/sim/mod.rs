//! The embedded cluster: an API server in memory behind a real client, and a kubelet that plays
//! pods.
//!
//! It serves the demo, the tests and the fault injection (design "The embedded cluster"). Whatever
//! it does a real control plane does too; where it does less, the module that does less says so.

pub mod keys;
pub mod kubelet;
mod ledger;
pub mod scene;
pub mod server;

pub use kubelet::{
    ContainerEnd, ContainerStart, Kubelet, KubeletOptions, Pull, Rule, Run, Runner, Script,
};
pub use ledger::{Ledger, Promise};
pub use server::{Cluster, Fault, Faults, Matching, Request, Verb};
