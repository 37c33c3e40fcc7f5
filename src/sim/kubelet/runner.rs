//! The runner: containers of executors that really run.
//!
//! In goes one container with everything its pod gives it, out comes how it ended. The kubelet has
//! no container runtime and knows no agent: whoever sets a [`Runner`] brings both.
//! Must never: be asked about a pod that is not an executor.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Container, Pod};
use kube::ResourceExt;

use super::edge::Edge;
use super::script::Outcome;
use crate::clock::Clock;

/// Runs the containers of executors, whose ends the [`Script`](super::Script) says otherwise.
///
/// The script still says which images there are, how long they are pulled and which nodes return.
pub trait Runner: Debug + Send + Sync {
    /// Runs a container to its end and blocks meanwhile; paused time stands still.
    ///
    /// Nothing interrupts it: when its pod is killed it runs on, and how it ends is forgotten. An
    /// agent that was told to reboot and ends with 0 makes the kubelet reboot the node.
    fn run(&self, container: &ContainerStart) -> ContainerEnd;
}

/// A container about to run, as its pod describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStart {
    pub node: String,
    pub pod: String,
    pub container: String,
    pub image: String,
    /// Empty for the image's own entry point.
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// The last of two with one name; without those whose value is not in the pod itself.
    pub env: BTreeMap<String, String>,
    /// Contents of the mounted ConfigMaps, by absolute path in the container.
    pub files: BTreeMap<String, String>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEnd {
    pub exit_code: i32,
    /// What it left at its termination message path, or its last output if its policy says so.
    pub message: String,
}

/// How a container about to run comes to its end.
pub(super) enum Course {
    Scripted(Outcome),
    Real(Arc<dyn Runner>, ContainerStart),
}

impl Course {
    /// Waits for the end.
    pub async fn end(self, clock: Clock) -> Outcome {
        match self {
            Self::Scripted(outcome) => {
                clock.sleep(outcome.run_time).await;
                outcome
            }
            Self::Real(runner, start) => {
                match tokio::task::spawn_blocking(move || runner.run(&start)).await {
                    Ok(ContainerEnd { exit_code, message }) => {
                        // It has taken its time already.
                        Outcome { run_time: Duration::ZERO, exit_code, message }
                    }
                    Err(error) if error.is_panic() => {
                        std::panic::resume_unwind(error.into_panic());
                    }
                    // The runtime goes away, and this task with it.
                    Err(_) => std::future::pending().await,
                }
            }
        }
    }
}

/// Collects what a container is given; waits for the ConfigMaps it mounts, as a kubelet does.
pub(super) async fn prepare(
    edge: &Edge,
    node: &str,
    pod: &Pod,
    container: &Container,
) -> ContainerStart {
    let variables = container.env.iter().flatten();
    ContainerStart {
        node: node.to_owned(),
        pod: pod.name_any(),
        container: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        command: container.command.clone().unwrap_or_default(),
        args: container.args.clone().unwrap_or_default(),
        env: variables
            .filter(|variable| variable.value_from.is_none())
            .map(|it| (it.name.clone(), it.value.clone().unwrap_or_default()))
            .collect(),
        files: files(edge, pod, container).await,
    }
}

async fn files(edge: &Edge, pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let sources: BTreeMap<&str, &ConfigMapVolumeSource> = volumes
        .filter_map(|volume| Some((volume.name.as_str(), volume.config_map.as_ref()?)))
        .collect();
    let mut files = BTreeMap::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(source) = sources.get(mount.name.as_str()) else { continue };
        let place = &mount.mount_path;
        for (key, text) in edge.config_map(&namespace, source).await {
            match &mount.sub_path {
                None => drop(files.insert(format!("{place}/{key}"), text)),
                Some(only) if *only == key => drop(files.insert(place.clone(), text)),
                Some(_) => {}
            }
        }
    }
    files
}
