//! Files or custom resources to what is wanted, with findings that name file, line and column.
//!
//! In: files with what their reader could not read, or live objects. Out: [`Parsed`] for files,
//! [`crate::model::Desired`] for live objects. The unit is one NodeWright with the policy it
//! names: a unit that breaks a rule is refused, all others count.
//! Must never: let a document that cannot be read look like one that was removed, apply half of an
//! object, or recurse and grow with its input.

#![warn(missing_docs)]

mod breach;
mod dependencies;
mod findings;
mod layer;
mod layout;
mod live;
mod names;
mod object;
mod overlay;
mod package;
mod path;
mod policy;
mod quantity;
mod revision;
mod rollout;
mod rules;
mod schema;
mod selector;
mod source;
mod suggest;
mod toleration;
mod tree;
pub mod yaml;

pub use breach::{Part, RuleBreach};
pub use findings::FINDINGS_MAX;
pub use layer::Foreign;
pub use layout::Layout;
pub use live::{config_digest, desired};
pub use path::Path;
pub use policy::policy;
pub use revision::{Document, Parsed, read};
pub use rollout::rollout;
pub use rules::Rule;
pub use source::{
    FILE_MAX_BYTES, FILES_MAX, Problem, ProblemKind, SourceFile, is_manifest_name, read_folder,
};
pub use suggest::suggest as nearest;
pub use tree::{DEPTH_MAX, DOCUMENTS_MAX, NODES_MAX};
