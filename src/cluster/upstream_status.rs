//! What upstream's operator keeps in a resource's status and we do not (upstream contract A.6).
//!
//! In: the raw object. Out: [`UpstreamStatus`], for as long as its maps are there; the patch that
//! removes them. Must never: fail on a strange value; what cannot be read is left out.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::status;
use crate::api;
use crate::model::{UpstreamMaps, UpstreamStatus};

/// Maps by node or package. Our own writes are merge patches that name none of them, so they stay
/// until they are removed on purpose.
const MAPS: [&str; 5] = ["nodeState", "nodeStatus", "nodeBootIds", "nodePriority", "configUpdates"];

/// Reads what upstream remembers, `None` when none of its maps is there.
pub fn read(object: &Value) -> Option<UpstreamStatus> {
    let status = object.get("status")?;
    MAPS.iter().any(|map| status.get(map).is_some_and(|it| !it.is_null())).then(|| {
        let compartments: BTreeMap<String, api::status::CompartmentStatus> =
            entries(status, "compartmentStatuses");
        UpstreamStatus {
            node_priority: entries(status, "nodePriority"),
            node_order_offset: status
                .get("nodeOrderOffset")
                .and_then(Value::as_u64)
                .and_then(|offset| u32::try_from(offset).ok())
                .unwrap_or_default(),
            node_boot_ids: entries(status, "nodeBootIds"),
            config_updates: entries(status, "configUpdates"),
            batches: compartments
                .into_iter()
                .filter_map(|(name, shown)| {
                    Some((name, status::batch_from_api(shown.batch_state?)))
                })
                .collect(),
        }
    })
}

/// Adds the removal of upstream's maps to a patch of the status.
pub fn with_maps(patch: Option<Value>, maps: UpstreamMaps) -> Option<Value> {
    match maps {
        UpstreamMaps::Keep => patch,
        UpstreamMaps::Drop => {
            let gone: Map<String, Value> =
                MAPS.iter().map(|map| ((*map).to_owned(), Value::Null)).collect();
            let mut patch = patch.unwrap_or_else(|| Value::Object(Map::new()));
            if let Some(patch) = patch.as_object_mut() {
                patch.extend(gone);
            }
            Some(patch)
        }
    }
}

/// Reads a map, without the entries that are not of the kind.
fn entries<T: DeserializeOwned>(status: &Value, map: &str) -> BTreeMap<String, T> {
    let all = status.get(map).and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), T::deserialize(value).ok()?)))
        .collect()
}
