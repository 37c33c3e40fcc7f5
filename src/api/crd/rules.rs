//! What must hold between fields, in CEL, for the API server to take an object.
//!
//! In: nothing. Out: tables of path to rules. Must never: be stricter than upstream's admission
//! webhook (upstream contract A.3 to A.5), except where what it lets through can never run.
//! `manifest` checks the same again, with file, line and column, and more than CEL can.

use serde_json::{Value, json};

use super::Kind;

/// One rule on the schema at a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Where the rule stands, below the table's prefix; `self` is the value there.
    pub path: &'static str,
    /// The CEL expression that must be true.
    rule: &'static str,
    /// What to tell who broke it: what is wrong, and the way out.
    message: &'static str,
    reason: Reason,
    /// The field to blame, below `path`; empty blames the value itself.
    field: &'static str,
}

/// The reasons that the API server may give.
///
/// `FieldValueDuplicate` is not among them: with it the API server leaves the message out.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
}

impl Rule {
    pub(super) fn to_json(self) -> Value {
        let Self { path: _, rule, message, reason, field } = self;
        let reason = match reason {
            Reason::Invalid => "FieldValueInvalid",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::Required => "FieldValueRequired",
        };
        let mut validation = json!({"rule": rule, "message": message, "reason": reason});
        if !field.is_empty() {
            validation["fieldPath"] = json!(field);
        }
        validation
    }
}

const NODEWRIGHT: &[Rule] = &[
    Rule {
        path: "",
        rule: "self.metadata.name.size() <= 50",
        message: "metadata.name may have at most 50 characters: it becomes part of the keys of \
                  annotations and labels on nodes",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "spec",
        rule: "!has(self.deploymentPolicy) || self.deploymentPolicy == '' || \
               !has(self.interruptionBudget) || \
               (!has(self.interruptionBudget.percent) && !has(self.interruptionBudget.count))",
        message: "give deploymentPolicy or interruptionBudget, not both",
        reason: Reason::Forbidden,
        field: ".interruptionBudget",
    },
    Rule {
        path: "spec.interruptionBudget",
        rule: "!has(self.percent) || !has(self.count)",
        message: "give percent or count, not both",
        reason: Reason::Forbidden,
        field: ".count",
    },
    Rule {
        path: "spec.packages",
        rule: "self.all(key, key.matches('^[a-z][-a-z0-9]{0,41}[a-z]$'))",
        message: "a package's name has 2 to 43 lower-case letters, digits and dashes, and starts \
                  and ends with a letter",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "spec.packages",
        rule: "self.all(key, !has(self[key].name) || self[key].name == key)",
        message: "a package's name must be the same as its key; leave the name out",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "spec.packages",
        rule: "self.all(key, !has(self[key].dependsOn) || \
               self[key].dependsOn.all(other, other in self && \
               self[other].version == self[key].dependsOn[other]))",
        message: "dependsOn must name a package of this resource, with exactly the version it has \
                  here",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "spec.packages",
        rule: "self.all(key, !has(self[key].dependsOn) || !(key in self[key].dependsOn))",
        message: "a package cannot depend on itself",
        reason: Reason::Invalid,
        field: "",
    },
];

const PACKAGE: &[Rule] = &[
    Rule {
        path: "version",
        rule: concat!(
            "self.matches('^v?(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)([.](0|[1-9][0-9]*)",
            "(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?)?)?$')",
        ),
        message: "version must be a semantic version such as 1.2.3, 1.2 or v1.2.3-rc.1",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "image",
        rule: "!self.contains('@')",
        message: "image must not carry a digest; put it into containerSHA",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "image",
        rule: "self.contains('@') || self.lastIndexOf(':') <= self.lastIndexOf('/')",
        message: "image must not carry a tag; version is the tag",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "resources",
        rule: "has(self.cpuRequest) == has(self.cpuLimit) && \
               has(self.cpuRequest) == has(self.memoryRequest) && \
               has(self.cpuRequest) == has(self.memoryLimit)",
        message: "give all of cpuRequest, cpuLimit, memoryRequest and memoryLimit, or none",
        reason: Reason::Required,
        field: "",
    },
    Rule {
        path: "resources",
        rule: "!has(self.cpuRequest) || !has(self.cpuLimit) || \
               (quantity(string(self.cpuRequest)).isGreaterThan(quantity('0')) && \
               !quantity(string(self.cpuLimit)).isLessThan(quantity(string(self.cpuRequest))))",
        message: "cpuRequest must be above zero and cpuLimit not below it",
        reason: Reason::Invalid,
        field: ".cpuLimit",
    },
    Rule {
        path: "resources",
        rule: "!has(self.memoryRequest) || !has(self.memoryLimit) || \
               (quantity(string(self.memoryRequest)).isGreaterThan(quantity('0')) && \
               !quantity(string(self.memoryLimit))\
               .isLessThan(quantity(string(self.memoryRequest))))",
        message: "memoryRequest must be above zero and memoryLimit not below it",
        reason: Reason::Invalid,
        field: ".memoryLimit",
    },
    Rule {
        path: "uninstall",
        rule: "!self.apply || self.enabled",
        message: "apply needs enabled: true; without it the package has no uninstall to run",
        reason: Reason::Invalid,
        field: ".apply",
    },
];

const POLICY: &[Rule] = &[
    Rule {
        path: "compartments",
        rule: "self.all(one, self.exists_one(other, other.name == one.name))",
        message: "each compartment needs a name of its own",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "compartments.[].name",
        rule: "self != '__default__'",
        message: "__default__ is the compartment of the nodes that no other selects; use default",
        reason: Reason::Forbidden,
        field: "",
    },
];

const PACE: &[Rule] = &[
    Rule {
        path: "budget",
        rule: "has(self.percent) != has(self.count)",
        message: "give exactly one of percent and count",
        reason: Reason::Invalid,
        field: "",
    },
    Rule {
        path: "strategy",
        rule: "(has(self.fixed) ? 1 : 0) + (has(self.linear) ? 1 : 0) + \
               (has(self.exponential) ? 1 : 0) == 1",
        message: "give exactly one of fixed, linear and exponential",
        reason: Reason::Invalid,
        field: "",
    },
];

/// Returns the tables of a kind, each with the path that its own paths start at.
pub(super) const fn of(kind: Kind) -> &'static [(&'static str, &'static [Rule])] {
    match kind {
        Kind::NodeWright => &[("", NODEWRIGHT), ("spec.packages.*", PACKAGE)],
        Kind::DeploymentPolicy => {
            &[("spec", POLICY), ("spec.default", PACE), ("spec.compartments.[]", PACE)]
        }
    }
}
