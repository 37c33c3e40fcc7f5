//! What upstream's operator took, to compare with.
//!
//! NVIDIA NodeWright at its public state of May 2026 (v0.15), measured: built from source and run
//! against a kube-apiserver 1.36 with etcd, with simulated nodes and kubelets, on two cores; every
//! container takes 0.5 s; wall time from the creation of the resource to `complete`; one run of
//! each row. Later versions were not measured.

use crate::rows::{Budget, Reboot, Row};

/// One row as measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub row: Row,
    pub wall_seconds: u32,
    /// Without events.
    pub writes_per_node: u32,
    pub cpu_seconds: u32,
    pub peak_mebibytes: u32,
}

/// The rows that were measured, in their order.
pub const MEASURED: [Measured; 8] = [
    measured(row(1, Budget::All, Reboot::Without, 100), 27, 29, 7, 63),
    measured(row(1, Budget::All, Reboot::Without, 500), 155, 29, 40, 128),
    measured(row(1, Budget::All, Reboot::Without, 1000), 321, 29, 94, 210),
    measured(row(4, Budget::All, Reboot::Without, 100), 65, 53, 15, 79),
    measured(row(4, Budget::All, Reboot::Without, 500), 345, 53, 84, 208),
    measured(row(1, Budget::Tenth, Reboot::Without, 500), 135, 29, 40, 106),
    measured(row(1, Budget::All, Reboot::With, 100), 47, 44, 12, 63),
    measured(row(1, Budget::All, Reboot::With, 500), 230, 44, 64, 133),
];

/// Returns what upstream took for a row, where that was measured.
pub fn of(row: &Row) -> Option<&'static Measured> {
    MEASURED.iter().find(|measured| measured.row == *row)
}

const fn row(packages: usize, budget: Budget, reboot: Reboot, nodes: usize) -> Row {
    Row { nodes, packages, budget, reboot }
}

const fn measured(
    row: Row,
    wall_seconds: u32,
    writes_per_node: u32,
    cpu_seconds: u32,
    peak_mebibytes: u32,
) -> Measured {
    Measured { row, wall_seconds, writes_per_node, cpu_seconds, peak_mebibytes }
}
