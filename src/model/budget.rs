//! How many nodes may be disturbed at once.

use serde::{Deserialize, Serialize};

/// A budget as a share or as a number of nodes (upstream contract A.2, A.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Budget {
    /// Percent of the nodes, 0 to 100.
    Percent(u32),
    /// Number of nodes.
    Count(u32),
}

impl Budget {
    /// Returns how many of `nodes` may be disturbed at once.
    ///
    /// Percent rounds down but gives at least one node (B.10); zero, written on purpose, is zero:
    /// our difference from upstream, which still takes one.
    pub fn ceiling(self, nodes: u32) -> u32 {
        match self {
            Self::Percent(0) | Self::Count(0) => 0,
            Self::Count(count) => count.min(nodes),
            Self::Percent(percent) => {
                let share = u64::from(nodes) * u64::from(percent) / 100;
                u32::try_from(share).unwrap_or(u32::MAX).max(1).min(nodes)
            }
        }
    }

    /// Returns whether the budget lets nobody through, whatever the size of the fleet.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Percent(0) | Self::Count(0))
    }
}
