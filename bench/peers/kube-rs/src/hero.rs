//! The custom resource that the operator reconciles.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The desired state. The API server sets defaults, so no field is ever missing.
///
/// The custom resource definition comes from the chart, so no schema is derived.
#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, PartialEq)]
#[kube(
    group = "stable.simple-bellerophon.io",
    version = "v1",
    kind = "BellerophonSimple",
    plural = "sheroes",
    namespaced,
    status = "BellerophonSimpleStatus",
    schema = "disabled"
)]
pub struct BellerophonSimpleSpec {
    pub winged_horse_name: String,
    pub image: String,
    pub replicas: i32,
}

/// The observed state. Only this process writes it.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BellerophonSimpleStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
