//! Names of nodes, shared by all who say them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names of nodes in a reason that may be that of every node that waits: with 1,000 names for
/// 9,000 nodes, copies would be most of the work of a plan.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct NodeNames(Arc<[String]>);

impl fmt::Debug for NodeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for NodeNames {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl From<Vec<String>> for NodeNames {
    fn from(names: Vec<String>) -> Self {
        Self(names.into())
    }
}

impl From<NodeNames> for Vec<String> {
    fn from(names: NodeNames) -> Self {
        names.0.to_vec()
    }
}
