//! The object that is reconciled.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What is wanted. The API server fills in defaults, so every field is there.
///
/// The definition is the one of the chart, so no schema is derived.
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

/// What was observed. Only this process writes it.
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
