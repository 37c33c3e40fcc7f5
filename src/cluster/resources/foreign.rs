//! The marks by which other tools say that an object is theirs.
//!
//! In: labels and annotations of an object. Out: whose it is, by which mark, and the way out.
//! Must never: guess from a label that people also write by hand (`app.kubernetes.io/instance`).

use std::collections::BTreeMap;
use std::fmt;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::cluster::source_state::ManagedObject;

/// A tool that applies objects from somewhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Argo CD.
    ArgoCd,
    /// Flux.
    Flux,
    /// Helm.
    Helm,
}

/// Whose an object is, and the mark that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignOwner {
    /// The tool.
    pub tool: Tool,
    /// The label or annotation.
    pub mark: String,
}

const PREFIXES: [(&str, Tool); 4] = [
    ("argocd.argoproj.io/", Tool::ArgoCd),
    ("kustomize.toolkit.fluxcd.io/", Tool::Flux),
    ("helm.toolkit.fluxcd.io/", Tool::Flux),
    ("meta.helm.sh/", Tool::Helm),
];

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

impl ForeignOwner {
    /// Looks for a mark on an object.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let (labels, annotations) = (object.labels(), object.annotations());
        if labels.get(MANAGED_BY).is_some_and(|by| by == "Helm") && !is_flux(labels) {
            return Some(Self { tool: Tool::Helm, mark: format!("{MANAGED_BY}=Helm") });
        }
        // Flux's Helm controller leaves Helm's marks as well: the tool that writes is Flux.
        PREFIXES.iter().find_map(|(prefix, tool)| {
            let mark =
                labels.keys().chain(annotations.keys()).find(|key| key.starts_with(prefix))?;
            Some(Self { tool: *tool, mark: mark.clone() })
        })
    }

    /// Returns one line for people: whose `object` is, and what to do.
    pub fn explain(&self, object: &ManagedObject) -> String {
        let Self { tool, mark } = self;
        format!(
            "{object} is left as it is: {tool} owns it ({mark}). Remove it there without deleting \
             the object, or from this repository; or let NodeWright take it over with --adopt"
        )
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ArgoCd => "Argo CD",
            Self::Flux => "Flux",
            Self::Helm => "Helm",
        })
    }
}

fn is_flux(labels: &BTreeMap<String, String>) -> bool {
    labels.keys().any(|key| key.starts_with("helm.toolkit.fluxcd.io/"))
}
