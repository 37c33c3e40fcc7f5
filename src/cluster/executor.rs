//! Executor pods, built: one pod per group of stages, cut at interrupts (design §6).
//!
//! In: an [`ExecutorSpec`] and the settings. Out: the pod, in upstream's shape (upstream contract
//! D.2, D.3) with our labels beside upstream's.
//! Must never: set a priority class. The kubelet would preempt training pods for a critical one.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, LocalObjectReference, Pod, PodSpec, ResourceRequirements, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::executor_pull;
use super::executor_volumes::{ROOT_PATH, mounts, root_mount, tolerations, volumes};
use super::names::{container_prefix, executor_name, label_value, visit_label};
use super::settings::EdgeSettings;
use crate::api::{NodeWright, keys};
use crate::model::{ExecutorSpec, Group, Interrupt, Package, Stage, Work};

/// Name of the container of an interrupt pod (upstream contract D.3).
pub const INTERRUPT_CONTAINER: &str = "interrupt";

/// How much longer than its stages' time-outs a pod may live: the time-outs count from the start
/// of each stage, and images are pulled before. A backstop for a daemon that is gone.
const DEADLINE_MARGIN: Duration = Duration::from_secs(15 * 60);

/// Copies what the package brings to its folder on the host: entries that are not hidden,
/// existing files overwritten, nothing deleted (upstream contract D.2).
const COPY_SCRIPT: &str = "mkdir -p /root/${SKYHOOK_DIR} && \
     cp -r /skyhook-package/* /root/${SKYHOOK_DIR}";

/// The package annotation: upstream's fields, and the snapshot beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Name of the package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Name of the rollout.
    pub skyhook: String,
    /// The last stage of the pod.
    pub stage: Stage,
    /// Image repository.
    pub image: String,
    /// Digest the image is pinned to.
    #[serde(default, rename = "containerSHA", skip_serializing_if = "Option::is_none")]
    pub container_sha: Option<String>,
    /// The snapshot it was made from. Ours.
    #[serde(default)]
    pub snapshot: String,
    /// When it was asked for, by the daemon's clock: every deadline counts from there, never from
    /// the server's time, which may be another (design §10). Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
}

/// Returns the owner reference to a NodeWright.
pub fn owner(rollout: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: NodeWright::api_version(&()).into_owned(),
        kind: NodeWright::kind(&()).into_owned(),
        name: rollout.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Builds the pod of an executor.
pub fn build(spec: &ExecutorSpec, settings: &EdgeSettings, now: Timestamp) -> Pod {
    let context = Context { spec, settings, package: spec.work.package(), now };
    let pod_spec = match &spec.work {
        Work::Pull { .. } => executor_pull::pod_spec(spec, settings),
        Work::Uninstall { .. } | Work::Install { .. } | Work::Verify { .. } => {
            context.pod_spec(context.stage_containers())
        }
        Work::Interrupt { interrupt, .. } => {
            context.pod_spec(vec![context.interrupt_container(interrupt)])
        }
    };
    Pod { metadata: context.metadata(), spec: Some(pod_spec), status: None }
}

/// Returns the image of the agent that runs the package's steps.
pub(super) fn agent_image(package: &Package, settings: &EdgeSettings) -> String {
    package.agent_image_override.clone().unwrap_or_else(|| settings.agent_image.clone())
}

/// What all parts of one pod are made from.
struct Context<'a> {
    spec: &'a ExecutorSpec,
    settings: &'a EdgeSettings,
    package: &'a Package,
    now: Timestamp,
}

impl Context<'_> {
    fn pod_spec(&self, init_containers: Vec<Container>) -> PodSpec {
        let Self { spec, settings, package, .. } = self;
        let pull_secret = settings.image_pull_secret.as_ref();
        PodSpec {
            node_name: Some(spec.visit.node.clone()),
            restart_policy: Some("Never".to_owned()),
            host_pid: Some(true),
            host_network: Some(true),
            // The agent speaks to nobody; a root shell on the host needs no token of ours.
            automount_service_account_token: Some(false),
            active_deadline_seconds: self.deadline_seconds(),
            termination_grace_period_seconds: package.graceful_shutdown.map(whole_seconds),
            image_pull_secrets: pull_secret
                .map(|name| vec![LocalObjectReference { name: name.clone() }]),
            tolerations: Some(tolerations(spec, settings)),
            volumes: Some(volumes(spec)),
            init_containers: Some(init_containers),
            containers: vec![self.main_container()],
            ..PodSpec::default()
        }
    }

    fn stages(&self) -> Vec<Stage> {
        match &self.spec.work {
            Work::Pull { .. } => Vec::new(),
            Work::Uninstall { .. } => vec![Stage::Uninstall],
            Work::Install { stages, .. } => stages.clone(),
            Work::Interrupt { .. } => vec![Stage::Interrupt],
            Work::Verify { .. } => vec![Stage::PostInterrupt],
        }
    }

    fn metadata(&self) -> ObjectMeta {
        let Self { spec, package, .. } = self;
        let last_stage = self.stages().last().copied().unwrap_or(Stage::Apply);
        let rollout = &spec.visit.rollout;
        let mut labels = BTreeMap::from([
            (keys::NAME, rollout.clone()),
            (keys::PACKAGE, label_value(&format!("{}-{}", package.name, package.version))),
            (keys::STAGE, last_stage.to_string()),
            (keys::NODE, label_value(&spec.visit.node)),
            (keys::GENERATION, spec.generation.to_string()),
            (keys::VISIT, visit_label(&spec.visit)),
            (keys::GROUP, spec.work.group().to_string()),
            (keys::ATTEMPT, spec.attempt.to_string()),
            (keys::NODE_UID, spec.visit.node_uid.clone()),
        ]);
        if spec.work.group() == Group::Interrupt {
            labels.insert(keys::INTERRUPT, keys::INTERRUPT_VALUE.to_owned());
        }
        let mark = Mark {
            name: package.name.clone(),
            version: package.version.to_string(),
            skyhook: rollout.clone(),
            stage: last_stage,
            image: package.image.clone(),
            container_sha: package.container_sha.clone(),
            snapshot: spec.snapshot.clone(),
            asked: Some(self.now),
        };
        let mark = serde_json::to_string(&mark).expect("plain texts become JSON");
        let resource_id = format!("{rollout}-{}-{}", spec.rollout_uid, spec.generation);
        let annotations = [(keys::PACKAGE_ANNOTATION, mark), (keys::RESOURCE_ID, resource_id)];
        ObjectMeta {
            name: Some(executor_name(spec)),
            namespace: Some(self.settings.namespace.clone()),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![owner(rollout, &spec.rollout_uid)]),
            ..ObjectMeta::default()
        }
    }

    /// Returns the package's folder on the host (upstream contract D.1).
    fn copy_dir(&self) -> String {
        let Self { spec, package, settings, .. } = self;
        format!(
            "{}/{}/{}-{}-{}-{}",
            settings.copy_dir_root,
            spec.visit.rollout,
            package.name,
            package.version,
            spec.rollout_uid,
            spec.generation
        )
    }

    fn agent_image(&self) -> String {
        agent_image(self.package, self.settings)
    }

    fn stage_containers(&self) -> Vec<Container> {
        let prefix = container_prefix(&self.package.name);
        let mut containers = vec![self.copy_container(prefix)];
        for stage in self.stages() {
            containers.push(self.agent_container(&format!("{prefix}-{stage}"), stage.as_str()));
            let check = format!("{stage}-check");
            containers.push(self.agent_container(&format!("{prefix}-{stage}check"), &check));
        }
        containers
    }

    fn copy_container(&self, prefix: &str) -> Container {
        Container {
            name: format!("{prefix}-init"),
            image: Some(self.package.image_reference()),
            command: Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]),
            args: Some(vec![COPY_SCRIPT.to_owned()]),
            env: Some(vec![env("SKYHOOK_DIR", &self.copy_dir())]),
            // There is no agent here to say what went wrong.
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            ..self.stage_container_base()
        }
    }

    fn agent_container(&self, name: &str, mode: &str) -> Container {
        let mut variables = self.package.env.clone();
        // After the package's own: the last of two with one name wins.
        variables.extend(self.agent_env());
        Container {
            name: name.to_owned(),
            image: Some(self.agent_image()),
            args: Some(vec![mode.to_owned(), ROOT_PATH.to_owned(), self.copy_dir()]),
            env: Some(variables),
            ..self.stage_container_base()
        }
    }

    fn stage_container_base(&self) -> Container {
        Container {
            image_pull_policy: Some("Always".to_owned()),
            resources: self.package.resources.as_ref().map(|resources| {
                requirements(
                    (&resources.cpu_request, &resources.memory_request),
                    (&resources.cpu_limit, &resources.memory_limit),
                )
            }),
            security_context: Some(privileged()),
            termination_message_policy: Some("File".to_owned()),
            volume_mounts: Some(mounts(self.spec)),
            ..Container::default()
        }
    }

    fn interrupt_container(&self, interrupt: &Interrupt) -> Container {
        #[derive(Serialize)]
        struct Payload<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            services: &'a [String],
        }
        let payload = Payload { kind: interrupt.kind.agent_word(), services: &interrupt.services };
        let payload = serde_json::to_vec(&payload).expect("plain texts become JSON");
        Container {
            name: INTERRUPT_CONTAINER.to_owned(),
            image: Some(self.agent_image()),
            args: Some(vec![
                Stage::Interrupt.to_string(),
                ROOT_PATH.to_owned(),
                self.copy_dir(),
                BASE64.encode(payload),
            ]),
            env: Some(self.agent_env()),
            resources: Some(requirements(("500m", "256Mi"), ("500m", "256Mi"))),
            security_context: Some(privileged()),
            termination_message_policy: Some("File".to_owned()),
            volume_mounts: Some(vec![root_mount()]),
            ..Container::default()
        }
    }

    fn main_container(&self) -> Container {
        Container {
            name: "done".to_owned(),
            image: Some(self.package.image_reference()),
            command: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), "exit 0".to_owned()]),
            resources: Some(requirements(("100m", "20Mi"), ("100m", "20Mi"))),
            ..Container::default()
        }
    }

    /// Returns the environment that every agent container has (upstream contract D.2).
    fn agent_env(&self) -> Vec<EnvVar> {
        let Self { spec, settings, package, .. } = self;
        let rollout = &spec.visit.rollout;
        let resource_id = format!(
            "{rollout}-{}-{}_{}_{}",
            spec.rollout_uid, spec.generation, package.name, package.version
        );
        vec![
            env("SKYHOOK_LOG_DIR", &format!("{}/{rollout}", settings.agent_log_root)),
            env("SKYHOOK_ROOT_DIR", &format!("{}/{rollout}", settings.copy_dir_root)),
            env("COPY_RESOLV", "false"),
            env("SKYHOOK_RESOURCE_ID", &resource_id),
            env("SKYHOOK_NODE_ORDER", &spec.order.to_string()),
        ]
    }

    fn deadline_seconds(&self) -> Option<i64> {
        let per_stage = self.package.stage_timeout.unwrap_or(self.settings.default_stage_timeout);
        if per_stage.is_zero() {
            return None;
        }
        let stages = u32::try_from(self.stages().len()).unwrap_or(u32::MAX);
        let whole = per_stage.saturating_mul(stages).saturating_add(DEADLINE_MARGIN);
        Some(whole_seconds(whole))
    }
}

/// Rounds up, as upstream does (upstream contract A.2): cutting off would make half a second none.
fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn env(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn privileged() -> SecurityContext {
    SecurityContext { privileged: Some(true), ..SecurityContext::default() }
}

/// Takes processor time and memory, asked for and at most.
fn requirements(requests: (&str, &str), limits: (&str, &str)) -> ResourceRequirements {
    let quantities = |(cpu, memory): (&str, &str)| {
        let quantity = |text: &str| Quantity(text.to_owned());
        BTreeMap::from([("cpu".to_owned(), quantity(cpu)), ("memory".to_owned(), quantity(memory))])
    };
    ResourceRequirements {
        requests: Some(quantities(requests)),
        limits: Some(quantities(limits)),
        ..ResourceRequirements::default()
    }
}
