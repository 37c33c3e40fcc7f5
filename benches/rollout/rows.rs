//! The matrix of rollouts, and which rows of it are asked for.

use std::fmt;

use clap::ValueEnum;

use crate::upstream;

/// One rollout that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub nodes: usize,
    pub packages: usize,
    pub budget: Budget,
    pub reboot: Reboot,
}

/// How many nodes may be worked on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Budget {
    All,
    #[value(name = "10%", alias = "10")]
    Tenth,
}

/// Whether the packages ask for a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reboot {
    #[value(name = "no")]
    Without,
    #[value(name = "yes")]
    With,
}

/// Measures rollouts on a real kube-apiserver and etcd, with the daemon and the kubelets as
/// processes.
///
/// Without options: the eight rollouts that upstream's operator was measured with. Any of --nodes,
/// --packages, --budget and --reboot chooses from the whole matrix instead; values are separated by
/// commas.
#[derive(Debug, clap::Parser)]
#[command(name = "rollout")]
pub struct Arguments {
    /// Nodes of a rollout, any numbers [matrix: 100,500,1000].
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    nodes: Vec<usize>,
    /// Packages of a rollout, numbers from 1 to 26 [matrix: 1,4].
    #[arg(
        long, value_delimiter = ',', value_name = "NUMBERS",
        value_parser = clap::value_parser!(u8).range(1..=26)
    )]
    packages: Vec<u8>,
    /// How many nodes at once [matrix: all,10%].
    #[arg(long, value_delimiter = ',')]
    budget: Vec<Budget>,
    /// Whether each node reboots once [matrix: no,yes].
    #[arg(long, value_delimiter = ',')]
    reboot: Vec<Reboot>,
    /// The whole matrix: 24 rollouts.
    #[arg(long, conflicts_with_all = ["nodes", "packages", "budget", "reboot", "smoke"])]
    all: bool,
    /// Six nodes, one rollout without a reboot and one with: shows that the bench works.
    #[arg(long, conflicts_with_all = ["nodes", "packages", "budget", "reboot"])]
    smoke: bool,
    /// Keeps the daemon's log of each rollout in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub logs: Option<std::path::PathBuf>,
    /// Cargo says so to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Nodes of the smoke rollouts.
const SMOKE_NODES: usize = 6;

const MATRIX_NODES: [usize; 3] = [100, 500, 1000];
const MATRIX_PACKAGES: [u8; 2] = [1, 4];

impl Arguments {
    /// Returns the rows asked for, those that take longest last.
    pub fn rows(&self) -> Vec<Row> {
        if self.smoke {
            let row = |packages, reboot| Row {
                nodes: SMOKE_NODES,
                packages,
                budget: Budget::All,
                reboot,
            };
            return vec![row(1, Reboot::Without), row(2, Reboot::With)];
        }
        let is_chosen = !self.nodes.is_empty()
            || !self.packages.is_empty()
            || !self.budget.is_empty()
            || !self.reboot.is_empty();
        if !is_chosen && !self.all {
            return upstream::MEASURED.iter().map(|measured| measured.row).collect();
        }
        let mut rows = Vec::new();
        for nodes in or(&self.nodes, &MATRIX_NODES) {
            for packages in or(&self.packages, &MATRIX_PACKAGES) {
                for budget in or(&self.budget, Budget::value_variants()) {
                    for reboot in or(&self.reboot, Reboot::value_variants()) {
                        let packages = usize::from(packages);
                        rows.push(Row { nodes, packages, budget, reboot });
                    }
                }
            }
        }
        rows
    }
}

fn or<T: Copy>(chosen: &[T], matrix: &[T]) -> Vec<T> {
    if chosen.is_empty() { matrix.to_vec() } else { chosen.to_vec() }
}

impl Budget {
    /// Returns the value of `interruptionBudget`.
    pub fn manifest(self) -> &'static str {
        match self {
            Self::All => "percent: 100",
            Self::Tenth => "percent: 10",
        }
    }

    /// Returns what stands in the column.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Tenth => "10 %",
        }
    }
}

impl Reboot {
    /// Returns what stands in the column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Without => "",
            Self::With => "yes",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, packages, budget, reboot } = self;
        let plural = if *packages == 1 { "" } else { "s" };
        write!(formatter, "{packages} package{plural} on {nodes} nodes, ")?;
        match budget {
            Budget::All => write!(formatter, "all at once, ")?,
            Budget::Tenth => write!(formatter, "10 % at a time, ")?,
        }
        match reboot {
            Reboot::Without => write!(formatter, "without a reboot"),
            Reboot::With => write!(formatter, "each node reboots"),
        }
    }
}
