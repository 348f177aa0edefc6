//! Creates and repairs children, with one write per child at most, and none if nothing differs.

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
    runtime::reflector::ObjectRef,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    adjust::{Adjust, controller},
    cache::{Cache, Cached},
    desired::Desired,
    hero::BellerophonSimple,
    patch,
    reconcile::{Context, Error},
};

/// The field manager of the operator's writes.
pub const FIELD_MANAGER: &str = "bellerophon-kube-rs";

/// A kind of child.
pub trait Child: Cached + Resource<Scope = NamespaceResourceScope> + Adjust + Serialize + PartialEq {}
impl<K> Child for K where K: Cached + Resource<Scope = NamespaceResourceScope> + Adjust + Serialize + PartialEq
{}

impl Cached for ConfigMap {
    fn prune(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
    }
}

impl Cached for Service {
    fn prune(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
        self.status = None;
    }
}

impl Cached for StatefulSet {
    fn prune(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
        if let Some(status) = &mut self.status {
            status.conditions = None;
        }
    }
}

/// The reason why a child could not be brought to its desired state.
#[derive(Debug)]
pub enum Trouble {
    /// The object with the child's name has another owner.
    Taken(String),
    /// The child is being deleted, or will be. Its deletion will trigger a reconcile.
    Leaving,
    /// The child was changed or deleted since it was read. That event will trigger a reconcile.
    Outdated,
    /// The namespace is being deleted.
    Terminating,
    Failed(Error),
}

/// The result of ensuring the children of an object.
pub struct Ensured {
    pub servers: Option<Arc<StatefulSet>>,
    pub troubles: Vec<Trouble>,
}

/// Creates and repairs all children concurrently, as they do not depend on each other.
pub async fn ensure_all(ctx: &Context, hero: &BellerophonSimple) -> Ensured {
    // Boxed, because it is large and kept in the future while requests are in flight.
    let want = Box::new(Desired::of(hero));
    let (config, service, servers) = tokio::join!(
        ensure(&ctx.client, &ctx.configs, hero, &want.config),
        ensure(&ctx.client, &ctx.services, hero, &want.service),
        ensure(&ctx.client, &ctx.servers, hero, &want.servers),
    );
    let troubles = [config.1, service.1, servers.1];
    Ensured {
        servers: servers.0,
        troubles: troubles.into_iter().flatten().collect(),
    }
}

/// Creates or repairs one child. Returns the resulting child, if it exists and may be used.
async fn ensure<K: Child>(
    client: &Client,
    cache: &Cache<K>,
    hero: &BellerophonSimple,
    want: &K,
) -> (Option<Arc<K>>, Option<Trouble>) {
    let api = Api::<K>::namespaced(client.clone(), &want.namespace().unwrap_or_default());
    let key = ObjectRef::from_obj(want);
    let seen = match cache.get(&key) {
        Some(seen) => seen,
        None => match create(&api, cache, want).await {
            Ok(Made::Created(made)) => return (Some(made), None),
            Ok(Made::Unseen(seen)) => seen,
            Err(error) => return (None, Some(trouble(error))),
        },
    };
    if let Some(trouble) = claim(hero, &*seen) {
        return (None, Some(trouble));
    }
    let patch = match repair(want, &seen) {
        Ok(Some(patch)) => patch,
        Ok(None) => return (Some(seen), None),
        Err(error) => return (Some(seen), Some(Trouble::Failed(error))),
    };
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let name = want.name_any();
    match cache.write(key, api.patch(&name, &params, &patch)).await {
        Ok(repaired) => (Some(repaired), None),
        Err(error) => (Some(seen), Some(trouble(error.into()))),
    }
}

enum Made<K> {
    Created(Arc<K>),
    /// The object exists, but the label selector does not match it. It has another owner, or it is
    /// a child that lost its labels.
    Unseen(Arc<K>),
}

async fn create<K: Child>(api: &Api<K>, cache: &Cache<K>, want: &K) -> Result<Made<K>, Error> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    };
    match cache
        .write(ObjectRef::from_obj(want), api.create(&params, want))
        .await
    {
        Ok(made) => Ok(Made::Created(made)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let mut live = api.get(&want.name_any()).await?;
            live.prune();
            Ok(Made::Unseen(Arc::new(live)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the patch that repairs a child, or `None` if nothing differs. The precondition of the
/// patch is the object's UID. If the patch contains a list, the precondition is the resource
/// version: such a patch also contains the items of other clients, and must not undo their changes.
fn repair<K: Child>(want: &K, seen: &K) -> Result<Option<Patch<Map<String, Value>>>, Error> {
    let mut after = seen.clone();
    after.adjust(want);
    if after == *seen {
        return Ok(None);
    }
    let mut patch = patch::between(seen, &after)?;
    let metadata = seen.meta();
    let condition = if patch.values().any(patch::has_list) {
        ("resourceVersion", &metadata.resource_version)
    } else {
        ("uid", &metadata.uid)
    };
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    metadata[condition.0] = json!(condition.1);
    Ok(Some(Patch::Merge(patch)))
}

/// Returns why a child may not be written, or `None` if it may.
fn claim<K: Child>(hero: &BellerophonSimple, seen: &K) -> Option<Trouble> {
    if seen.meta().deletion_timestamp.is_some() {
        return Some(Trouble::Leaving);
    }
    match controller(seen.meta()) {
        Some(owner) if Some(&owner.uid) == hero.metadata.uid.as_ref() => None,
        Some(owner) if owner.kind == BellerophonSimple::kind(&()) && owner.name == hero.name_any() => {
            Some(Trouble::Leaving)
        }
        None if is_labelled(seen) => None, // The child lost its owner reference.
        _ => Some(Trouble::Taken(format!("{} {}", K::kind(&()), seen.name_any()))),
    }
}

/// Reports whether a child has the labels that the watch selects by.
fn is_labelled<K: Child>(seen: &K) -> bool {
    let has = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or_default();
        seen.labels().get(key).is_some_and(|held| held == value)
    };
    crate::desired::CHILDREN.split(',').all(has)
}

fn trouble(error: Error) -> Trouble {
    match &error {
        Error::Kube(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
            Trouble::Outdated
        }
        Error::Kube(kube::Error::Api(status)) if is_terminating(status) => Trouble::Terminating,
        _ => Trouble::Failed(error),
    }
}

fn is_terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_forbidden()
        && causes
            .into_iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
}
