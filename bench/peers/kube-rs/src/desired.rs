//! The desired state: the children of an object, with only the fields that the operator owns.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{
            Capabilities, ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource,
            PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile, SecurityContext, Service,
            ServicePort, ServiceSpec, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::{Resource, ResourceExt};
use sha2::{Digest, Sha256};

use crate::hero::BellerophonSimple;

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const APP: &str = "bellerophon-simple";
const MANAGER: &str = "bellerophon";

/// The label selector of the children of all objects.
pub const CHILDREN: &str =
    "app.kubernetes.io/managed-by=bellerophon,app.kubernetes.io/name=bellerophon-simple";

/// The annotation of pods that makes them follow a change of the settings.
const CONFIG: &str = "stable.simple-bellerophon.io/config";

const HTTP_PORT: i32 = 8080;

/// The user ID of `nonroot` in distroless images.
const NONROOT: i64 = 65532;

pub struct Desired {
    pub config: ConfigMap,
    pub service: Service,
    pub servers: StatefulSet,
}

impl Desired {
    pub fn of(hero: &BellerophonSimple) -> Self {
        let config = config(hero);
        let hash = hash(config.data.iter().flatten());
        Self {
            config,
            service: service(hero),
            servers: servers(hero, hash),
        }
    }
}

/// Returns the selector of an object's pods as text.
pub fn selector_text(hero: &BellerophonSimple) -> String {
    format!("{INSTANCE}={},{NAME}={APP}", hero.name_any())
}

fn selector(hero: &BellerophonSimple) -> BTreeMap<String, String> {
    BTreeMap::from([(NAME.into(), APP.into()), (INSTANCE.into(), hero.name_any())])
}

fn labels(hero: &BellerophonSimple) -> BTreeMap<String, String> {
    let mut labels = selector(hero);
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

fn metadata(hero: &BellerophonSimple) -> ObjectMeta {
    ObjectMeta {
        name: hero.metadata.name.clone(),
        namespace: hero.metadata.namespace.clone(),
        labels: Some(labels(hero)),
        owner_references: hero.controller_owner_ref(&()).map(|mut owner| {
            owner.block_owner_deletion = Some(true);
            vec![owner]
        }),
        ..ObjectMeta::default()
    }
}

fn config(hero: &BellerophonSimple) -> ConfigMap {
    ConfigMap {
        metadata: metadata(hero),
        data: Some(BTreeMap::from([
            ("winged_horse_name".into(), hero.spec.winged_horse_name.clone()),
            ("http_port".into(), HTTP_PORT.to_string()),
            ("peers_service".into(), hero.name_any()),
        ])),
        ..ConfigMap::default()
    }
}

fn service(hero: &BellerophonSimple) -> Service {
    Service {
        metadata: metadata(hero),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            selector: Some(selector(hero)),
            publish_not_ready_addresses: Some(true),
            ports: Some(vec![ServicePort {
                name: Some("http".into()),
                port: HTTP_PORT,
                protocol: Some("TCP".into()),
                target_port: Some(IntOrString::String("http".into())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn servers(hero: &BellerophonSimple, hash: String) -> StatefulSet {
    StatefulSet {
        metadata: metadata(hero),
        spec: StatefulSetSpec {
            replicas: Some(hero.spec.replicas),
            service_name: Some(hero.name_any()),
            pod_management_policy: Some("Parallel".into()),
            selector: LabelSelector {
                match_labels: Some(selector(hero)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(hero)),
                    annotations: Some(BTreeMap::from([(CONFIG.into(), hash)])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(hero)),
            },
            ..StatefulSetSpec::default()
        },
        ..StatefulSet::default()
    }
}

fn pod(hero: &BellerophonSimple) -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(NONROOT),
            run_as_group: Some(NONROOT),
            fs_group: Some(NONROOT),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".into(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![Container {
            name: "server".into(),
            image: Some(hero.spec.image.clone()),
            ports: Some(vec![ContainerPort {
                name: Some("http".into()),
                container_port: HTTP_PORT,
                protocol: Some("TCP".into()),
                ..ContainerPort::default()
            }]),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                read_only_root_filesystem: Some(true),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".into()]),
                    ..Capabilities::default()
                }),
                ..SecurityContext::default()
            }),
            volume_mounts: Some(vec![
                VolumeMount {
                    name: "config".into(),
                    mount_path: "/etc/bellerophon".into(),
                    read_only: Some(true),
                    ..VolumeMount::default()
                },
                VolumeMount {
                    name: "tmp".into(),
                    mount_path: "/tmp".into(),
                    ..VolumeMount::default()
                },
            ]),
            ..Container::default()
        }],
        volumes: Some(vec![
            Volume {
                name: "config".into(),
                config_map: Some(ConfigMapVolumeSource {
                    name: hero.name_any(),
                    ..ConfigMapVolumeSource::default()
                }),
                ..Volume::default()
            },
            Volume {
                name: "tmp".into(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            },
        ]),
        ..PodSpec::default()
    }
}

/// Returns a short hash of the settings.
fn hash<'a>(data: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let mut sum = Sha256::new();
    for (key, value) in data {
        for part in [key.as_bytes(), b"\0", value.as_bytes(), b"\0"] {
            sum.update(part);
        }
    }
    let sum = sum.finalize();
    format!(
        "{:016x}",
        u64::from_be_bytes(std::array::from_fn(|index| sum[index]))
    )
}
