//! One package: every rule of upstream contract A.3, and the validated form.

use std::collections::BTreeMap;
use std::time::Duration;

use super::breach::Breaches;
use super::names::{is_config_key, is_package_name};
use super::path::Path;
use super::quantity::Quantity;
use super::rules::Rule;
use super::schema::shown;
use crate::api::package::{Interrupt, InterruptType, Package, Resources};
use crate::model::{self, Pattern};

/// Most that a ConfigMap holds, names included, in bytes (Kubernetes' `MaxSecretSize`).
const CONFIG_MAX_BYTES: usize = 1024 * 1024;

/// Returns the validated package, or `None` when something refuses it.
pub(super) fn package(
    key: &str,
    written: &Package,
    path: &Path,
    breaches: &mut Breaches,
) -> Option<model::Package> {
    let Package {
        name,
        version,
        image,
        container_sha,
        agent_image_override,
        interrupt,
        depends_on,
        config_map,
        config_interrupts,
        env,
        resources,
        graceful_shutdown,
        stage_timeout,
        uninstall,
    } = written;
    check_name(key, name, path, breaches);
    check_image(image, &path.key("image"), breaches);
    check_config(config_map, config_interrupts, path, breaches);
    if let Some(interrupt) = interrupt {
        check_services(interrupt, &path.key("interrupt"), breaches);
    }
    let uninstall = uninstall.unwrap_or_default();
    if uninstall.apply && !uninstall.enabled {
        let message = "apply asks for an uninstall that is not enabled".to_owned();
        let way_out = "add enabled: true if the package has an uninstall, or remove apply";
        let path = path.key("uninstall").key("apply");
        breaches.key(Rule::ApplyWithoutUninstall, &path, message, way_out);
    }
    let version_path = path.key("version");
    let version = match version.parse::<model::Version>() {
        Ok(version) => Some(version),
        Err(_) => {
            let message = format!("{} is not a semantic version", shown(version));
            let way_out = "write a version such as 1.4.0, 1.4 or v1.4.0-rc.1";
            breaches.value(Rule::Version, &version_path, message, way_out);
            None
        }
    };
    let resources = match resources {
        Some(resources) => limits(resources, &path.key("resources"), breaches),
        None => None,
    };
    Some(model::Package {
        env_digest: None,
        name: key.to_owned(),
        version: version?,
        image: image.clone(),
        container_sha: container_sha.clone(),
        agent_image_override: agent_image_override.clone(),
        interrupt: interrupt.as_ref().map(validated),
        config_interrupts: config_interrupts
            .iter()
            .map(|(key, interrupt)| (key.clone(), validated(interrupt)))
            .collect(),
        depends_on: depends_on.clone(),
        config_map: config_map.clone(),
        env: env.clone(),
        resources,
        graceful_shutdown: graceful_shutdown
            .map(|grace| Duration::from_secs(grace.seconds_cut_off())),
        stage_timeout: stage_timeout.map(crate::api::GoDuration::get),
        uninstall: model::Uninstall { enabled: uninstall.enabled, apply: uninstall.apply },
    })
}

fn validated(interrupt: &Interrupt) -> model::Interrupt {
    let Interrupt { kind, services } = interrupt;
    let kind = match kind {
        InterruptType::Service => model::InterruptKind::Service,
        InterruptType::Reboot => model::InterruptKind::Reboot,
        InterruptType::Noop => model::InterruptKind::Noop,
        InterruptType::RestartAllServices => model::InterruptKind::RestartAllServices,
    };
    let is_service = kind == model::InterruptKind::Service;
    model::Interrupt { kind, services: if is_service { services.clone() } else { Vec::new() } }
}

fn check_name(key: &str, name: &str, path: &Path, breaches: &mut Breaches) {
    if !is_package_name(key) {
        let message = format!("{} is not a name for a package", shown(key));
        let way_out = "use 2 to 43 lower-case letters, digits and dashes, from letter to letter";
        breaches.key(Rule::PackageName, path, message, way_out);
    }
    if !name.is_empty() && name != key {
        let message = format!("the package's key is {}, its name {}", shown(key), shown(name));
        breaches.value(Rule::PackageNameKey, &path.key("name"), message, "leave the name out");
    }
}

fn check_image(image: &str, path: &Path, breaches: &mut Breaches) {
    if let Some((bare, _)) = image.split_once('@') {
        let message = "the image carries a digest".to_owned();
        let way_out = format!("write {} here and the digest into containerSHA", shown(bare));
        return breaches.value(Rule::ImageTag, path, message, &way_out);
    }
    let name_start = image.rfind('/').map_or(0, |slash| slash + 1);
    if let Some(colon) = image[name_start..].find(':') {
        let (bare, tag) = image.split_at(name_start + colon);
        let message = format!("the image carries the tag {}", shown(&tag[1..]));
        let way_out = format!("write {} here; the tag is the package's version", shown(bare));
        breaches.value(Rule::ImageTag, path, message, &way_out);
    }
}

fn check_config(
    files: &BTreeMap<String, String>,
    interrupts: &BTreeMap<String, Interrupt>,
    path: &Path,
    breaches: &mut Breaches,
) {
    for key in files.keys().filter(|key| !is_config_key(key)) {
        let message = format!("{} cannot be the name of a configuration file", shown(key));
        let way_out = "use letters, digits, dashes, underscores and dots";
        breaches.key(Rule::TextForm, &path.key("configMap").key(key), message, way_out);
    }
    let size: usize = files.iter().map(|(key, text)| key.len() + text.len()).sum();
    if size > CONFIG_MAX_BYTES {
        let message = format!("the files of the package have {size} bytes together");
        let way_out = format!("keep them within {CONFIG_MAX_BYTES}, or put them into the image");
        breaches.key(Rule::ConfigSize, &path.key("configMap"), message, &way_out);
    }
    for (pattern, interrupt) in interrupts {
        let path = path.key("configInterrupts").key(pattern);
        check_services(interrupt, &path, breaches);
        if matches_any(pattern, files) {
            continue;
        }
        let message = if pattern.contains('*') {
            format!("no key of configMap matches {}", shown(pattern))
        } else {
            format!("configMap has no key {}", shown(pattern))
        };
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let way_out = match super::suggest::suggest(pattern, &names) {
            Some(meant) => format!("write {meant} if that is what you mean"),
            None => "write a key of configMap, or remove the interrupt".to_owned(),
        };
        breaches.key(Rule::ConfigInterrupt, &path, message, &way_out);
    }
}

/// Whether a key, or a glob if it has a `*`, is one of the files (upstream contract A.3).
fn matches_any(pattern: &str, files: &BTreeMap<String, String>) -> bool {
    if !pattern.contains('*') {
        return files.contains_key(pattern);
    }
    Pattern::parse(pattern).is_some_and(|pattern| files.keys().any(|key| pattern.matches(key)))
}

fn check_services(interrupt: &Interrupt, path: &Path, breaches: &mut Breaches) {
    let is_service = interrupt.kind == InterruptType::Service;
    if is_service && interrupt.services.is_empty() {
        let message = "the interrupt restarts no service, as none is named".to_owned();
        let way_out = "list the units to restart under services";
        breaches.key(Rule::Services, path, message, way_out);
    } else if !is_service && !interrupt.services.is_empty() {
        let message = "services are named, but only the type service restarts them".to_owned();
        let way_out = "write type: service, or remove services";
        breaches.key(Rule::Services, &path.key("services"), message, way_out);
    }
}

/// Returns the limits: all four, each above zero, no request above its limit.
fn limits(written: &Resources, path: &Path, breaches: &mut Breaches) -> Option<model::Resources> {
    let Resources { cpu_request, cpu_limit, memory_request, memory_limit } = written;
    let fields = [
        ("cpuRequest", cpu_request),
        ("cpuLimit", cpu_limit),
        ("memoryRequest", memory_request),
        ("memoryLimit", memory_limit),
    ];
    let missing: Vec<&str> =
        fields.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name).collect();
    if missing.len() == fields.len() {
        return None;
    }
    if !missing.is_empty() {
        let message = format!("only some resources are given; missing: {}", missing.join(", "));
        breaches.key(Rule::ResourcesPartial, path, message, "give all four, or none");
        return None;
    }
    let mut amounts = Vec::new();
    for (name, value) in fields {
        let text = &value.as_ref()?.0;
        let amount = Quantity::parse(text);
        if !amount.is_some_and(Quantity::is_positive) {
            let message = format!("{} is not a quantity above zero", shown(text));
            let way_out = "write a quantity such as 500m or 2Gi";
            breaches.value(Rule::ResourcesValue, &path.key(name), message, way_out);
        }
        amounts.push((name, text.clone(), amount));
    }
    for pair in amounts.chunks(2) {
        let [(request_name, request_text, request), (name, text, limit)] = pair else { continue };
        if let (Some(request), Some(limit)) = (request, limit)
            && limit < request
        {
            let message = format!("the limit {text} is below {request_name}, {request_text}");
            let way_out = format!("raise {name} or lower {request_name}");
            breaches.value(Rule::ResourcesValue, &path.key(name), message, &way_out);
        }
    }
    let text = |value: &Option<_>| {
        value.as_ref().map(|quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| {
            quantity.0.clone()
        })
    };
    Some(model::Resources {
        cpu_request: text(cpu_request)?,
        cpu_limit: text(cpu_limit)?,
        memory_request: text(memory_request)?,
        memory_limit: text(memory_limit)?,
    })
}
