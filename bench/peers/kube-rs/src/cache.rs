//! A reflector's store with an overlay of the process's own writes.
//!
//! A store of kube-rs shows only what the watch has delivered. A reconcile right after a write
//! would read a stale object and write again. Here the API server's answer to a write is visible
//! until the watch delivers that version or a later one.

use std::{
    cmp,
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, TryStreamExt};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::WriterDropped},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

/// A kind that is cached.
pub trait Cached:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Drops the fields that the operator does not read.
    fn prune(&mut self);
}

pub struct Cache<K: Cached> {
    store: Store<K>,
    ready: OnceCell<()>,
    writes: Mutex<HashMap<ObjectRef<K>, Write<K>>>,
}

enum Write<K> {
    /// A request in flight, with the latest version that the watch has delivered since it was sent.
    InFlight { seen: u64 },
    /// An answer that the watch has not delivered yet.
    Answered(Arc<K>),
}

impl<K: Cached> Cache<K> {
    fn new(store: Store<K>) -> Self {
        Self {
            store,
            ready: OnceCell::new(),
            writes: Mutex::default(),
        }
    }

    /// Watches a kind in all namespaces. The stream must be polled for the cache to fill.
    pub fn watch(
        client: Client,
        config: watcher::Config,
    ) -> (Arc<Self>, impl Stream<Item = watcher::Result<Event<K>>> + Send) {
        let (store, writer) = reflector::store();
        let cache = Arc::new(Self::new(store));
        let observer = cache.clone();
        let stream = watcher(Api::<K>::all(client), config)
            .default_backoff()
            .modify(K::prune)
            .reflect(writer)
            .inspect_ok(move |event| observer.observe(event));
        (cache, stream)
    }

    /// Waits for the first list. Any number of tasks may wait. `Store::wait_until_ready` of
    /// kube-runtime 5.0 alone would wake only one of several waiting tasks.
    pub async fn ready(&self) -> Result<(), WriterDropped> {
        let ready = self.ready.get_or_try_init(|| self.store.wait_until_ready());
        ready.await.copied()
    }

    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Returns the newest known version of an object.
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        // Lock before reading the store: an event is in the store before its write is removed.
        let writes = self.lock();
        match (writes.get(key), self.store.get(key)) {
            (Some(Write::Answered(written)), Some(stored)) => {
                Some(cmp::max_by_key(stored, written.clone(), |o| version(&**o)))
            }
            (Some(Write::Answered(written)), None) => Some(written.clone()),
            (_, stored) => stored,
        }
    }

    /// Sends a write and keeps its answer. At most one write per object may be in flight.
    pub async fn write(
        &self,
        key: ObjectRef<K>,
        request: impl Future<Output = kube::Result<K>>,
    ) -> kube::Result<Arc<K>> {
        self.lock().insert(key.clone(), Write::InFlight { seen: 0 });
        let answer = request.await;
        let mut writes = self.lock();
        let seen = match writes.remove(&key) {
            Some(Write::InFlight { seen }) => seen,
            _ => 0,
        };
        let mut object = answer?;
        object.prune();
        let object = Arc::new(object);
        if seen < version(&*object) {
            writes.insert(key, Write::Answered(object.clone()));
        }
        Ok(object)
    }

    /// Removes writes whose version, or a later one, the watch has delivered.
    fn observe(&self, event: &Event<K>) {
        let mut writes = self.lock();
        match event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => {
                let key = ObjectRef::from_obj(object);
                let delivered = version(object);
                match writes.get_mut(&key) {
                    Some(Write::InFlight { seen }) => *seen = delivered.max(*seen),
                    Some(Write::Answered(written)) if version(&**written) <= delivered => {
                        writes.remove(&key);
                    }
                    _ => {}
                }
            }
            Event::Init => {}
            // A completed list is newer than every earlier answer.
            Event::InitDone => writes.retain(|_, write| matches!(write, Write::InFlight { .. })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef<K>, Write<K>>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses the resource version. Versions of one kind can be compared, which Kubernetes guarantees
/// since 1.35.
fn version<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream::FuturesUnordered};
    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use kube::{
        ResourceExt,
        runtime::{
            reflector::{self, ObjectRef},
            watcher::Event,
        },
    };

    use tokio::time::timeout;

    use super::Cache;

    fn object(version: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("pegasus".into()),
                namespace: Some("default".into()),
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn key() -> ObjectRef<ConfigMap> {
        ObjectRef::from_obj(&object("1"))
    }

    fn seen(cache: &Cache<ConfigMap>) -> Option<String> {
        cache.get(&key()).and_then(|object| object.resource_version())
    }

    struct World {
        cache: Cache<ConfigMap>,
        writer: reflector::store::Writer<ConfigMap>,
    }

    impl World {
        fn new() -> Self {
            let (store, writer) = reflector::store();
            Self {
                cache: Cache::new(store),
                writer,
            }
        }

        fn deliver(&mut self, event: Event<ConfigMap>) {
            self.writer.apply_watcher_event(&event);
            self.cache.observe(&event);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_the_first_list_go_on_after_it() {
        let mut world = World::new();
        let mut waiting = (0..3)
            .map(|_| world.cache.ready())
            .collect::<FuturesUnordered<_>>();
        assert!(timeout(Duration::from_secs(1), waiting.next()).await.is_err());
        world.writer.apply_watcher_event(&Event::InitDone);
        let done = timeout(Duration::from_secs(1), waiting.collect::<Vec<_>>())
            .await
            .unwrap();
        assert_eq!(done.len(), 3);
    }

    #[tokio::test]
    async fn a_write_is_seen_before_the_watch_delivers_it() {
        let world = World::new();
        world.cache.write(key(), async { Ok(object("7")) }).await.unwrap();
        assert_eq!(seen(&world.cache).as_deref(), Some("7"));
    }

    #[tokio::test]
    async fn a_deletion_ends_a_write() {
        let mut world = World::new();
        world.cache.write(key(), async { Ok(object("7")) }).await.unwrap();
        world.deliver(Event::Delete(object("8")));
        assert_eq!(seen(&world.cache), None);
    }

    #[tokio::test]
    async fn a_deletion_that_overtakes_the_answer_ends_the_write() {
        let mut world = World::new();
        let World { cache, writer } = &mut world;
        let answer = async {
            for event in [Event::Apply(object("7")), Event::Delete(object("8"))] {
                writer.apply_watcher_event(&event);
                cache.observe(&event);
            }
            Ok(object("7"))
        };
        cache.write(key(), answer).await.unwrap();
        assert_eq!(seen(cache), None);
    }

    #[tokio::test]
    async fn an_older_event_does_not_hide_a_write() {
        let mut world = World::new();
        world
            .cache
            .write(key(), async { Ok(object("10")) })
            .await
            .unwrap();
        world.deliver(Event::Apply(object("9")));
        assert_eq!(seen(&world.cache).as_deref(), Some("10"));
        world.deliver(Event::Apply(object("11")));
        assert_eq!(seen(&world.cache).as_deref(), Some("11"));
    }

    #[tokio::test]
    async fn a_failed_write_leaves_nothing() {
        let world = World::new();
        let refused = kube::Error::LinesCodecMaxLineLengthExceeded;
        assert!(world.cache.write(key(), async { Err(refused) }).await.is_err());
        assert_eq!(seen(&world.cache), None);
    }
}
