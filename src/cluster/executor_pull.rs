//! Pull pods: they bring a package's images to a node before it is cordoned (design §6).
//!
//! In: an [`ExecutorSpec`] of `Work::Pull`, or such a pod as seen. Out: the pod's spec; how far the
//! images are.
//! Must never: run anything of the package, or with rights on the host. What its containers do is
//! of no interest, also not how they end: one that has started has its image.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, LocalObjectReference, PodSpec, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::executor::agent_image;
use super::executor_volumes::tolerations;
use super::settings::EdgeSettings;
use super::slim_pod::{ContainerState, SlimPod, Standing};
use crate::api::annotations::bounded_message;
use crate::model::{ExecutorPhase, ExecutorSpec, PodPhase, Waiting};

/// Name of the container that brings the package's image.
const PACKAGE_CONTAINER: &str = "pull-package";

/// Name of the container that brings the agent's image.
const AGENT_CONTAINER: &str = "pull-agent";

/// Nobody on a host: the pod needs no rights, and images are pulled by the kubelet, not by it.
const NOBODY: i64 = 65_532;

/// Returns the spec of a pull pod.
///
/// Its requests are next to nothing, so that no kubelet refuses it for want of room that the
/// package itself does not ask for.
pub fn pod_spec(spec: &ExecutorSpec, settings: &EdgeSettings) -> PodSpec {
    let package = spec.work.package();
    let of_package = Container {
        // Any package image has a shell (upstream contract E.1).
        command: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), "exit 0".to_owned()]),
        ..container(PACKAGE_CONTAINER, package.image_reference())
    };
    let of_agent = Container {
        // Through its entry point: an agent's image need not have anything else.
        args: Some(vec!["--version".to_owned()]),
        ..container(AGENT_CONTAINER, agent_image(package, settings))
    };
    let secret = settings.image_pull_secret.as_ref();
    PodSpec {
        node_name: Some(spec.visit.node.clone()),
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(0),
        image_pull_secrets: secret.map(|name| vec![LocalObjectReference { name: name.clone() }]),
        tolerations: Some(tolerations(spec, settings)),
        containers: vec![of_package, of_agent],
        ..PodSpec::default()
    }
}

fn container(name: &str, image: String) -> Container {
    let quantities = |cpu: &str, memory: &str| {
        let quantity = |text: &str| Quantity(text.to_owned());
        BTreeMap::from([("cpu".to_owned(), quantity(cpu)), ("memory".to_owned(), quantity(memory))])
    };
    Container {
        name: name.to_owned(),
        image: Some(image),
        // As the stages' containers: the registry is asked also for a tag that the node has.
        image_pull_policy: Some("Always".to_owned()),
        resources: Some(ResourceRequirements {
            requests: Some(quantities("1m", "4Mi")),
            limits: Some(quantities("100m", "128Mi")),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            run_as_user: Some(NOBODY),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Returns how far a pull pod is: it has succeeded once each container has started and ended,
/// however it ended.
pub fn phase(slim: &SlimPod) -> ExecutorPhase {
    let all = |is: fn(&Standing) -> bool| {
        !slim.containers.is_empty()
            && slim.containers.iter().all(|container| is(&container.standing))
    };
    let has_begun = |standing: &Standing| !matches!(standing, Standing::Waiting { .. });
    match slim.pod.phase {
        _ if all(|standing| matches!(standing, Standing::Terminated { .. })) => {
            ExecutorPhase::Succeeded
        }
        PodPhase::Succeeded => ExecutorPhase::Succeeded,
        PodPhase::Failed => ExecutorPhase::Failed,
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            let any = slim.containers.iter().any(|container| has_begun(&container.standing));
            if any { ExecutorPhase::Running } else { ExecutorPhase::Pending }
        }
    }
}

/// Returns why an image is not there: of the container that fails, else of the first that waits.
pub fn waiting(slim: &SlimPod, since: Timestamp) -> Option<Waiting> {
    let all = slim.containers.iter().filter_map(|container| waits(container, since));
    let (waits, fails): (Vec<_>, Vec<_>) = all.partition(Waiting::is_being_created);
    fails.into_iter().chain(waits).next()
}

fn waits(container: &ContainerState, since: Timestamp) -> Option<Waiting> {
    let Standing::Waiting { reason, message } = &container.standing else { return None };
    let (reason, image) = (reason.clone(), container.image.clone());
    Some(Waiting { reason, message: bounded_message(message), image, since })
}
