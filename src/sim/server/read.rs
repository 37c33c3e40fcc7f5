//! Get and list.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::State;
use super::call::{Call, parse_revision};
use super::refusal::Refusal;
use super::resources::Kind;
use super::store::ObjectKey;
use super::watch::is_in;

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a \
     consistent list result. You can start a new list without the continue parameter.";

impl State {
    /// Returns one object as JSON text.
    pub fn get(&self, kind: &Kind, call: &Call) -> Result<String, Refusal> {
        if !matches!(call.address.subresource.as_deref(), None | Some("status")) {
            return Err(Refusal::no_such_path());
        }
        let key = (call.namespace().to_owned(), call.name().to_owned());
        let found = self.store.get(&kind.key(), &key);
        let object = found.ok_or_else(|| Refusal::not_found(kind, call.name()))?;
        Ok(call.view.render(kind, &object))
    }

    /// Returns a list as JSON text, in the order of the keys.
    ///
    /// Pages continue over the objects of the moment, not over a snapshot; a page is refused as
    /// expired once the history since the first page is gone, like on a real server.
    pub fn list(&mut self, kind: &Kind, call: &Call) -> Result<String, Refusal> {
        let selector = call.selector(kind)?;
        let revision = self.store.revision();
        let collection = self.store.collection(&kind.key());
        let oldest = collection.oldest();
        check_version(call, revision)?;
        let (listed_at, after) = match call.parameter("continue") {
            None => (revision, None),
            Some(token) => {
                let (at, after) = read_token(token)?;
                if at < oldest {
                    return Err(Refusal::expired(CONTINUE_EXPIRED));
                }
                (at, Some(after))
            }
        };
        let limit = call.parameter("limit").and_then(|text| text.parse::<usize>().ok());
        let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let mut selected = collection.objects.iter().filter(|(key, object)| {
            after.as_ref().is_none_or(|after| *key > after)
                && is_in(call.address.namespace.as_deref(), &key.0)
                && selector.matches(object)
        });
        let page: Vec<_> = selected.by_ref().take(limit).collect();
        let left = selected.count();
        let mut metadata = json!({"resourceVersion": listed_at.to_string()});
        if let Some((last, _)) = page.last().filter(|_| left > 0) {
            metadata["continue"] = json!(write_token(listed_at, last));
            if selector.is_everything() {
                metadata["remainingItemCount"] = json!(left);
            }
        }
        let items: Vec<String> =
            page.into_iter().map(|(_, object)| call.view.render(kind, object)).collect();
        let (api_version, list_kind) = call.view.list_type(kind);
        Ok(format!(
            "{{\"apiVersion\":\"{api_version}\",\"kind\":\"{list_kind}\",\
             \"metadata\":{metadata},\"items\":[{}]}}",
            items.join(",")
        ))
    }
}

/// Checks the resourceVersion of a list. There is only the present here: an exact match of an older
/// version is expired, and the future is the 504 of a real server.
fn check_version(call: &Call, revision: u64) -> Result<(), Refusal> {
    let Some(version) = call.parameter("resourceVersion") else { return Ok(()) };
    let wanted = parse_revision(version)?;
    if wanted > revision {
        return Err(Refusal::too_large_version(wanted, revision));
    }
    if call.parameter("resourceVersionMatch") == Some("Exact") && wanted != revision {
        let why = format!("The resourceVersion for the provided list is too old: {wanted}");
        return Err(Refusal::expired(why));
    }
    Ok(())
}

fn write_token(revision: u64, key: &ObjectKey) -> String {
    URL_SAFE_NO_PAD.encode(json!([revision, key.0, key.1]).to_string())
}

fn read_token(token: &str) -> Result<(u64, ObjectKey), Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let parsed =
        bytes.and_then(|bytes| serde_json::from_slice::<(u64, String, String)>(&bytes).ok());
    let (revision, namespace, name) =
        parsed.ok_or_else(|| Refusal::bad_request("continue key is not valid"))?;
    Ok((revision, (namespace, name)))
}
