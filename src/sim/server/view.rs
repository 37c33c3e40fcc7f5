//! How an object is shown: whole, or its metadata only.

use serde_json::{Value, json};

use super::resources::Kind;

/// What the client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Whole,
    Metadata,
}

impl View {
    /// Reads the `Accept` header.
    pub fn of(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadata") { Self::Metadata } else { Self::Whole }
    }

    /// Returns the object as this client sees it, as JSON text.
    pub fn render(self, kind: &Kind, object: &Value) -> String {
        match self {
            Self::Metadata => json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": object["metadata"],
            })
            .to_string(),
            // Versions of one CRD share their objects; the path decides which one is shown.
            Self::Whole if object["apiVersion"] != kind.api_version() => {
                let mut shown = object.clone();
                shown["apiVersion"] = json!(kind.api_version());
                shown.to_string()
            }
            Self::Whole => object.to_string(),
        }
    }

    /// Returns `apiVersion` and `kind` of a list.
    pub fn list_type(self, kind: &Kind) -> (String, String) {
        match self {
            Self::Whole => (kind.api_version(), format!("{}List", kind.kind)),
            Self::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned()),
        }
    }
}
