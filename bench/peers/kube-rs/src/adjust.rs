//! Sets only the owned fields in a copy of the observed object. Defaults of the API server and
//! additions of other clients stay. If the copy equals the observed object, nothing is written.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{ConfigMap, Container, ContainerPort, PodSpec, Service, ServicePort, Volume, VolumeMount},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

type Map = BTreeMap<String, String>;

/// A kind of child.
pub trait Adjust {
    /// Sets the owned fields to their values in `want`.
    fn adjust(&mut self, want: &Self);
}

impl Adjust for ConfigMap {
    fn adjust(&mut self, want: &Self) {
        metadata(&mut self.metadata, &want.metadata);
        merge(&mut self.data, want.data.as_ref());
    }
}

impl Adjust for Service {
    fn adjust(&mut self, want: &Self) {
        metadata(&mut self.metadata, &want.metadata);
        let (Some(seen), Some(want)) = (&mut self.spec, &want.spec) else {
            return;
        };
        seen.publish_not_ready_addresses = want.publish_not_ready_addresses;
        seen.selector.clone_from(&want.selector); // Replaced: an added label would change the selected pods.
        for port in want.ports.iter().flatten() {
            let named = |seen: &ServicePort| seen.name == port.name;
            let numbered = |seen: &ServicePort| (seen.port, &seen.protocol) == (port.port, &port.protocol);
            let seen = item(&mut seen.ports, &[&named, &numbered], port);
            seen.name.clone_from(&port.name);
            seen.port = port.port;
            seen.protocol.clone_from(&port.protocol);
            seen.target_port.clone_from(&port.target_port);
        }
    }
}

impl Adjust for StatefulSet {
    fn adjust(&mut self, want: &Self) {
        metadata(&mut self.metadata, &want.metadata);
        self.spec.replicas = want.spec.replicas;
        let (seen, want) = (&mut self.spec.template, &want.spec.template);
        let seen_metadata = seen.metadata.get_or_insert_default();
        if let Some(want) = &want.metadata {
            merge(&mut seen_metadata.labels, want.labels.as_ref());
            merge(&mut seen_metadata.annotations, want.annotations.as_ref());
        }
        if let Some(want) = &want.spec {
            pod(seen.spec.get_or_insert_default(), want);
        }
    }
}

fn pod(seen: &mut PodSpec, want: &PodSpec) {
    seen.automount_service_account_token = want.automount_service_account_token;
    let security = seen.security_context.get_or_insert_default();
    if let Some(want) = &want.security_context {
        security.run_as_non_root = want.run_as_non_root;
        security.run_as_user = want.run_as_user;
        security.run_as_group = want.run_as_group;
        security.fs_group = want.fs_group;
        security.seccomp_profile.clone_from(&want.seccomp_profile);
    }
    for want in &want.containers {
        match seen.containers.iter_mut().find(|seen| seen.name == want.name) {
            Some(seen) => container(seen, want),
            None => seen.containers.push(want.clone()),
        }
    }
    for want in want.volumes.iter().flatten() {
        let named = |seen: &Volume| seen.name == want.name;
        volume(item(&mut seen.volumes, &[&named], want), want);
    }
}

fn container(seen: &mut Container, want: &Container) {
    seen.image.clone_from(&want.image);
    let security = seen.security_context.get_or_insert_default();
    if let Some(want) = &want.security_context {
        security.allow_privilege_escalation = want.allow_privilege_escalation;
        security.read_only_root_filesystem = want.read_only_root_filesystem;
        security.capabilities.clone_from(&want.capabilities);
    }
    for port in want.ports.iter().flatten() {
        let named = |seen: &ContainerPort| seen.name == port.name;
        let numbered = |seen: &ContainerPort| {
            (seen.container_port, &seen.protocol) == (port.container_port, &port.protocol)
        };
        let seen = item(&mut seen.ports, &[&named, &numbered], port);
        seen.name.clone_from(&port.name);
        seen.container_port = port.container_port;
        seen.protocol.clone_from(&port.protocol);
    }
    for mount in want.volume_mounts.iter().flatten() {
        let there = |seen: &VolumeMount| seen.mount_path == mount.mount_path;
        let seen = item(&mut seen.volume_mounts, &[&there], mount);
        seen.name.clone_from(&mount.name);
        seen.read_only = mount.read_only;
    }
}

/// Sets a volume. It keeps the API server's defaults if the volume has the right kind of source.
fn volume(seen: &mut Volume, want: &Volume) {
    match (
        &mut seen.config_map,
        &want.config_map,
        &seen.empty_dir,
        &want.empty_dir,
    ) {
        (Some(seen), Some(want), _, _) => seen.name.clone_from(&want.name),
        (_, _, Some(_), Some(_)) => {}
        _ => seen.clone_from(want),
    }
}

/// Sets the labels and the owner reference.
fn metadata(seen: &mut ObjectMeta, want: &ObjectMeta) {
    merge(&mut seen.labels, want.labels.as_ref());
    let owners = seen.owner_references.get_or_insert_default();
    for owner in want.owner_references.iter().flatten() {
        match owners.iter_mut().find(|seen| seen.uid == owner.uid) {
            Some(seen) => seen.clone_from(owner),
            None => owners.push(owner.clone()),
        }
    }
}

/// Returns the owner reference of the controller.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

fn merge(seen: &mut Option<Map>, want: Option<&Map>) {
    let seen = seen.get_or_insert_default();
    for (key, value) in want.into_iter().flatten() {
        if seen.get(key) != Some(value) {
            seen.insert(key.clone(), value.clone());
        }
    }
}

/// Returns the operator's item of a list: a match of the first predicate in `ours` that any item
/// satisfies. If no item matches, a copy of `want` is added.
fn item<'a, T: Clone>(list: &'a mut Option<Vec<T>>, ours: &[&dyn Fn(&T) -> bool], want: &T) -> &'a mut T {
    let list = list.get_or_insert_default();
    let found = ours.iter().find_map(|ours| list.iter().position(ours));
    let position = found.unwrap_or_else(|| {
        list.push(want.clone());
        list.len() - 1
    });
    &mut list[position]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

    use super::Adjust;

    fn service(ports: &[(&str, i32)]) -> Service {
        let port = |&(name, port): &(&str, i32)| ServicePort {
            name: Some(name.into()),
            port,
            protocol: Some("TCP".into()),
            ..ServicePort::default()
        };
        Service {
            spec: Some(ServiceSpec {
                ports: Some(ports.iter().map(port).collect()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    fn adjusted(seen: &[(&str, i32)]) -> Service {
        let mut seen = service(seen);
        seen.adjust(&service(&[("http", 8080)]));
        Service {
            metadata: Default::default(),
            ..seen
        }
    }

    #[test]
    fn a_port_that_was_renamed_is_found_by_its_number() {
        assert_eq!(adjusted(&[("donkey", 8080)]), service(&[("http", 8080)]));
    }

    #[test]
    fn a_port_that_was_renumbered_is_found_by_its_name() {
        assert_eq!(adjusted(&[("http", 80)]), service(&[("http", 8080)]));
    }

    #[test]
    fn a_port_of_somebody_else_stays() {
        assert_eq!(
            adjusted(&[("theirs", 9)]),
            service(&[("theirs", 9), ("http", 8080)])
        );
    }
}
