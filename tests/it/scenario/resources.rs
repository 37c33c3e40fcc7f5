//! The commands about resources: what a person does to them with kubectl.

use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nodewright::api::{DeploymentPolicy, NodeWright, keys};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::commands::{Printed, with_causes};
use super::world::World;

/// Who writes.
const PERSON: &str = "kubectl";

/// Runs a command if it is one of these.
pub async fn run(world: &World, words: &[&str], input: &str) -> Option<Printed> {
    Some(match words {
        ["apply"] => match applied(world, input).await {
            Ok(()) => Ok(String::new()),
            Err(ApplyError::Refused(_, why) | ApplyError::Broken(why)) => Err(why),
        },
        ["refused"] => match applied(world, input).await {
            Ok(()) => Err("the API server took it".to_owned()),
            // What a server says beyond the code depends on its version.
            Err(ApplyError::Refused(code, _)) => Ok(format!("refused with {code}")),
            Err(ApplyError::Broken(why)) => Err(why),
        },
        ["patch", resource] => match serde_yaml::from_str::<Value>(input) {
            Ok(change) => patch(world, resource, change).await,
            Err(error) => Err(with_causes(&error)),
        },
        ["pause", resource] => annotate(world, resource, keys::PAUSE, json!("true")).await,
        ["resume", resource] => annotate(world, resource, keys::PAUSE, Value::Null).await,
        ["disable", resource] => annotate(world, resource, keys::DISABLE, json!("true")).await,
        ["enable", resource] => annotate(world, resource, keys::DISABLE, Value::Null).await,
        ["delete", resource] => {
            let deleted = nodewrights(world).delete(resource, &DeleteParams::background()).await;
            deleted.map(|_| String::new()).map_err(|error| with_causes(&error))
        }
        _ => return None,
    })
}

/// Why a resource was not applied.
enum ApplyError {
    /// The API server answered with this code.
    Refused(u16, String),
    /// It is no resource, or there was no answer.
    Broken(String),
}

async fn applied(world: &World, input: &str) -> Result<(), ApplyError> {
    let broken = |error: &dyn std::error::Error| ApplyError::Broken(with_causes(error));
    let object: Value = serde_yaml::from_str(input).map_err(|error| broken(&error))?;
    match object["kind"].as_str() {
        Some("NodeWright") => put::<NodeWright>(world, object).await,
        Some("DeploymentPolicy") => put::<DeploymentPolicy>(world, object).await,
        _ => Err(ApplyError::Broken("it is no NodeWright and no DeploymentPolicy".to_owned())),
    }
}

/// Creates an object or replaces its specification; what others annotated stays.
async fn put<K>(world: &World, object: Value) -> Result<(), ApplyError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let refused = |error: kube::Error| match error {
        kube::Error::Api(status) => ApplyError::Refused(status.code, status.message),
        error => ApplyError::Broken(with_causes(&error)),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // As JSON, so that the server sees what was written and not what our types make of it.
    let api: Api<kube::api::DynamicObject> =
        Api::all_with(world.ground.client("person"), &kube::api::ApiResource::erase::<K>(&()));
    let typed = serde_json::from_value(object.clone());
    let typed = typed.map_err(|error| ApplyError::Broken(with_causes(&error)))?;
    let parameters = PostParams { field_manager: Some(PERSON.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &typed).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => return other.map(drop).map_err(refused),
    }
    loop {
        let mut live = api.get(&name).await.map_err(refused)?;
        live.data["spec"] = object["spec"].clone();
        match api.replace(&name, &parameters, &live).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            other => return other.map(drop).map_err(refused),
        }
    }
}

async fn annotate(world: &World, resource: &str, key: &str, value: Value) -> Printed {
    patch(world, resource, json!({"metadata": {"annotations": {key: value}}})).await
}

async fn patch(world: &World, resource: &str, change: Value) -> Printed {
    let parameters =
        PatchParams { field_manager: Some(PERSON.to_owned()), ..PatchParams::default() };
    let changed = nodewrights(world).patch(resource, &parameters, &Patch::Merge(change)).await;
    changed.map(|_| String::new()).map_err(|error| with_causes(&error))
}

/// Returns whether the daemon has completed the resource as it is now, not as it was.
pub async fn is_complete(world: &World, name: &str) -> bool {
    let Ok(Some(resource)) = nodewrights(world).get_opt(name).await else { return false };
    let generation = resource.meta().generation;
    let status = resource.status.unwrap_or_default();
    generation.is_some() && status.observed_generation == generation
}

/// Returns the word of a resource's status, as `Complete` or `InProgress`.
pub async fn word(world: &World, name: &str) -> Option<String> {
    let word = nodewrights(world).get(name).await.ok()?.status?.status?;
    Some(format!("{word:?}"))
}

/// Returns whether there is no such resource any more.
pub async fn is_gone(world: &World, name: &str) -> bool {
    matches!(nodewrights(world).get_opt(name).await, Ok(None))
}

/// Returns the resources.
pub fn nodewrights(world: &World) -> Api<NodeWright> {
    Api::all(world.ground.client("person"))
}
