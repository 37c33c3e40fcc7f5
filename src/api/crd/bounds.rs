//! How long each text, how many each list and map, and which values each number may have.
//!
//! In: nothing. Out: tables of path to bounds. Must never: leave a text, list or map unbounded,
//! since the API server prices every CEL rule by the largest input that the bounds allow.
//! Values are upstream's where it has them (upstream contract A.2 to A.6), and generous elsewhere.

use serde_json::{Value, json};

use super::Kind;
use crate::api::annotations::MESSAGE_MAX_BYTES;

/// One bound on one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// At most so many characters.
    Length(u32),
    /// At least one character.
    NotEmpty,
    /// A regular expression.
    Pattern(&'static str),
    /// A list with at most so many items.
    Items(u32),
    /// A map with at most so many entries.
    Entries(u32),
    /// A number that is not less.
    AtLeast(i32),
    /// A number that is not more.
    AtMost(i32),
}

impl Bound {
    pub(super) fn apply(self, schema: &mut Value) {
        let (key, value) = match self {
            Self::Length(characters) => ("maxLength", json!(characters)),
            Self::NotEmpty => ("minLength", json!(1)),
            Self::Pattern(pattern) => ("pattern", json!(pattern)),
            Self::Items(count) => ("maxItems", json!(count)),
            Self::Entries(count) => ("maxProperties", json!(count)),
            Self::AtLeast(number) => ("minimum", json!(number)),
            Self::AtMost(number) => ("maximum", json!(number)),
        };
        schema[key] = value;
    }
}

/// Path below a prefix, and its bounds.
type Table = [(&'static str, &'static [Bound])];

/// Longest quantity; 2^63 has 19 digits, and nobody writes more than a few.
pub(super) const QUANTITY_MAX_LENGTH: u32 = 32;

/// What Kubernetes takes as a quantity, without a sign that we would refuse anyway.
pub(super) const QUANTITY_PATTERN: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
);

/// Name of a package: starts and ends with a letter (upstream contract A.3).
pub(super) const PACKAGE_NAME_PATTERN: &str = "^[a-z][-a-z0-9]{0,41}[a-z]$";

/// Longest name of a package (upstream contract A.3).
pub(super) const PACKAGE_NAME_MAX: u32 = 43;

/// Longest version; an image tag has at most as much.
const VERSION_MAX: u32 = 128;

/// Longest image reference; registries stop at 255 for the repository, the host comes before it.
const IMAGE_MAX: u32 = 512;

/// Packages of one resource; a node's state must fit its annotation, at about 400 bytes each.
const PACKAGES_MAX: u32 = 64;

/// Packages that one depends on.
const DEPENDENCIES_MAX: u32 = 16;

/// Files of one package.
const CONFIG_KEYS_MAX: u32 = 64;

/// Longest file of a package; the ConfigMap that carries all of them may have 1 MiB.
const CONFIG_VALUE_MAX: u32 = 512 * 1024;

/// Environment variables of one package.
const ENVIRONMENT_MAX: u32 = 64;

/// Longest value of an environment variable; the kernel takes 128 KiB, a specification should not.
const ENVIRONMENT_VALUE_MAX: u32 = 16 * 1024;

/// Services that one interrupt restarts.
const SERVICES_MAX: u32 = 32;

/// Longest name of a systemd unit.
const SERVICE_NAME_MAX: u32 = 255;

/// Tolerations of one resource.
const TOLERATIONS_MAX: u32 = 64;

/// Longest label key or taint key: 253 of prefix, a slash, 63 of name.
const LABEL_KEY_MAX: u32 = 317;

/// Longest label value.
const LABEL_VALUE_MAX: u32 = 63;

/// Longest name of most objects.
const OBJECT_NAME_MAX: u32 = 253;

/// Requirements of one selector.
const REQUIREMENTS_MAX: u32 = 32;

/// Values of one requirement; pools are sometimes listed node by node.
const REQUIREMENT_VALUES_MAX: u32 = 256;

/// Compartments of one policy.
const COMPARTMENTS_MAX: u32 = 50;

/// Longest name of a compartment; it is a map key in the status.
const COMPARTMENT_NAME_MAX: u32 = 63;

/// Nodes in upstream's per-node maps; ten times what Kubernetes supports.
const UPSTREAM_NODES_MAX: u32 = 50_000;

/// Conditions of one object, upstream's mirrored ones included (upstream contract A.7).
const CONDITIONS_MAX: u32 = 64;

/// Longest message of a condition; upstream may write more than we do.
const CONDITION_MESSAGE_MAX: u32 = 32 * 1024;

/// Longest digest of a rollout's target.
const TARGET_MAX: u32 = 128;

/// Longest list of batches to come; ours have a third of it.
const BATCHES_TEXT_MAX: u32 = 512;

/// Longest text in what we take over from Kubernetes' own types.
const INHERITED_TEXT_MAX: u32 = MESSAGE_MAX_BYTES as u32;

/// Most items or entries in what we take over from Kubernetes' own types.
const INHERITED_COUNT_MAX: u32 = 64;

const PERCENT_MAX: i32 = 100;

use Bound::{AtLeast, AtMost, Entries, Items, Length, NotEmpty, Pattern};

const NODEWRIGHT: &Table = &[
    ("deploymentPolicy", &[Length(OBJECT_NAME_MAX)]),
    ("interruptionBudget.percent", &[AtLeast(0), AtMost(PERCENT_MAX)]),
    ("interruptionBudget.count", &[AtLeast(0)]),
    ("packages", &[Entries(PACKAGES_MAX)]),
    ("additionalTolerations", &[Items(TOLERATIONS_MAX)]),
    ("additionalTolerations.[].key", &[Length(LABEL_KEY_MAX)]),
    ("additionalTolerations.[].value", &[Length(LABEL_VALUE_MAX)]),
    ("priority", &[AtLeast(1)]),
];

const PACKAGE: &Table = &[
    ("name", &[Length(PACKAGE_NAME_MAX), Pattern(PACKAGE_NAME_PATTERN)]),
    ("version", &[NotEmpty, Length(VERSION_MAX)]),
    ("image", &[NotEmpty, Length(IMAGE_MAX), Pattern(r"^\S+$")]),
    ("containerSHA", &[Length(71), Pattern("^sha256:[0-9a-f]{64}$")]),
    ("agentImageOverride", &[Length(IMAGE_MAX)]),
    ("dependsOn", &[Entries(DEPENDENCIES_MAX)]),
    ("dependsOn.*", &[NotEmpty, Length(VERSION_MAX)]),
    ("configMap", &[Entries(CONFIG_KEYS_MAX)]),
    ("configMap.*", &[Length(CONFIG_VALUE_MAX)]),
    ("configInterrupts", &[Entries(CONFIG_KEYS_MAX)]),
    ("env", &[Items(ENVIRONMENT_MAX)]),
    ("env.[].name", &[NotEmpty, Length(OBJECT_NAME_MAX)]),
    ("env.[].value", &[Length(ENVIRONMENT_VALUE_MAX)]),
];

const INTERRUPT: &Table =
    &[("services", &[Items(SERVICES_MAX)]), ("services.[]", &[NotEmpty, Length(SERVICE_NAME_MAX)])];

const SELECTOR: &Table = &[
    ("matchLabels", &[Entries(REQUIREMENTS_MAX)]),
    ("matchLabels.*", &[Length(LABEL_VALUE_MAX)]),
    ("matchExpressions", &[Items(REQUIREMENTS_MAX)]),
    ("matchExpressions.[].key", &[Length(LABEL_KEY_MAX)]),
    ("matchExpressions.[].operator", &[Length(LABEL_VALUE_MAX)]),
    ("matchExpressions.[].values", &[Items(REQUIREMENT_VALUES_MAX)]),
    ("matchExpressions.[].values.[]", &[Length(LABEL_VALUE_MAX)]),
];

const NODEWRIGHT_STATUS: &Table = &[
    ("completeNodes", &[Length(32)]),
    ("packageList", &[Length(PACKAGES_MAX * (PACKAGE_NAME_MAX + VERSION_MAX + 2))]),
    ("compartmentStatuses", &[Entries(COMPARTMENTS_MAX + 1)]),
    ("rollout.target", &[Length(TARGET_MAX)]),
    ("rollout.compartments", &[Entries(COMPARTMENTS_MAX + 1)]),
    ("rollout.compartments.*.target", &[Length(TARGET_MAX)]),
    ("rollout.compartments.*.openBatch.target", &[Length(TARGET_MAX)]),
    ("rollout.compartments.*.batchesToCome", &[Length(BATCHES_TEXT_MAX)]),
    ("nodeState", &[Entries(UPSTREAM_NODES_MAX)]),
    ("nodeState.*", &[Entries(4 * PACKAGES_MAX)]),
    ("nodeStatus", &[Entries(UPSTREAM_NODES_MAX)]),
    ("nodeBootIds", &[Entries(UPSTREAM_NODES_MAX)]),
    ("nodePriority", &[Entries(UPSTREAM_NODES_MAX)]),
    ("configUpdates", &[Entries(4 * PACKAGES_MAX)]),
    ("configUpdates.*", &[Items(UPSTREAM_NODES_MAX)]),
];

const CONDITIONS: &Table = &[
    ("conditions", &[Items(CONDITIONS_MAX)]),
    ("conditions.[].type", &[Length(LABEL_KEY_MAX)]),
    ("conditions.[].message", &[Length(CONDITION_MESSAGE_MAX)]),
];

const POLICY: &Table = &[
    ("compartments", &[Items(COMPARTMENTS_MAX)]),
    ("compartments.[].name", &[NotEmpty, Length(COMPARTMENT_NAME_MAX)]),
];

const PACE: &Table = &[
    ("budget.percent", &[AtLeast(1), AtMost(PERCENT_MAX)]),
    ("budget.count", &[AtLeast(1)]),
    ("strategy.linear.delta", &[AtLeast(1)]),
    ("strategy.exponential.growthFactor", &[AtLeast(2)]),
];

const STRATEGY: &Table = &[
    ("initialBatch", &[AtLeast(1)]),
    ("batchThreshold", &[AtLeast(1), AtMost(PERCENT_MAX)]),
    ("failureThreshold", &[AtLeast(1)]),
    ("safetyLimit", &[AtLeast(1), AtMost(PERCENT_MAX)]),
];

/// Returns the tables of a kind, each with the path that its own paths start at.
pub(super) const fn of(kind: Kind) -> &'static [(&'static str, &'static Table)] {
    match kind {
        Kind::NodeWright => &[
            ("spec", NODEWRIGHT),
            ("spec.nodeSelectors", SELECTOR),
            ("spec.podNonInterruptLabels", SELECTOR),
            ("spec.packages.*", PACKAGE),
            ("spec.packages.*.interrupt", INTERRUPT),
            ("spec.packages.*.configInterrupts.*", INTERRUPT),
            ("status", NODEWRIGHT_STATUS),
            ("status", CONDITIONS),
        ],
        Kind::DeploymentPolicy => &[
            ("spec", POLICY),
            ("spec.default", PACE),
            ("spec.default.strategy.fixed", STRATEGY),
            ("spec.default.strategy.linear", STRATEGY),
            ("spec.default.strategy.exponential", STRATEGY),
            ("spec.compartments.[]", PACE),
            ("spec.compartments.[].selector", SELECTOR),
            ("spec.compartments.[].strategy.fixed", STRATEGY),
            ("spec.compartments.[].strategy.linear", STRATEGY),
            ("spec.compartments.[].strategy.exponential", STRATEGY),
            ("status", CONDITIONS),
        ],
    }
}

/// Bounds what no table names: the insides of Kubernetes' own types.
pub(super) fn fall_back(schema: &mut Value) {
    let bound = match schema["type"].as_str() {
        Some("string") => ("maxLength", INHERITED_TEXT_MAX),
        Some("array") => ("maxItems", INHERITED_COUNT_MAX),
        Some("object") if schema["additionalProperties"].is_object() => {
            ("maxProperties", INHERITED_COUNT_MAX)
        }
        _ => return,
    };
    let (key, value) = bound;
    if schema[key].is_null() && schema["enum"].is_null() {
        schema[key] = json!(value);
    }
}
