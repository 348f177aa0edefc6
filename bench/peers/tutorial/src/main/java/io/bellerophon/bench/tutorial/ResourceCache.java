package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.KubernetesResourceList;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * A cache of all objects of one kind, by namespace and name, filled by a list and then a watch. The callback receives
 * the key of each object that was added, changed or deleted. A watch that breaks ends the process.
 */
class ResourceCache<T extends HasMetadata> {

  private final Map<String, T> cache = new ConcurrentHashMap<>();
  private final String kind;

  ResourceCache(String kind) {
    this.kind = kind;
    Metrics.CACHED.labelValues(kind);
  }

  T get(String key) {
    return cache.get(key);
  }

  static String keyOf(HasMetadata object) {
    return object.getMetadata().getNamespace() + "/" + object.getMetadata().getName();
  }

  void listThenWatch(KubernetesClient client, Class<T> type, Consumer<String> callback) {
    KubernetesResourceList<T> list = client.resources(type).inAnyNamespace().list();
    for (T object : list.getItems()) {
      put(object);
      callback.accept(keyOf(object));
    }
    var from = new ListOptionsBuilder().withResourceVersion(list.getMetadata().getResourceVersion()).build();
    client.resources(type).inAnyNamespace().watch(from, new Watcher<T>() {

      @Override
      public void eventReceived(Action action, T object) {
        switch (action) {
          case BOOKMARK:
            return;
          case ADDED, MODIFIED:
            put(object);
            break;
          case DELETED:
            remove(object);
            break;
          default:
            exit("watch of " + kind + " got " + action + " for " + object);
        }
        Metrics.EVENTS.labelValues(kind, action.name()).inc();
        callback.accept(keyOf(object));
      }

      @Override
      public void onClose(WatcherException cause) {
        cause.printStackTrace();
        exit("watch of " + kind + " ended");
      }
    });
  }

  /** Stores an object from the watch or from the answer to a creation, unless the cache has a newer one. */
  void put(T object) {
    cache.merge(keyOf(object), object, ResourceCache::newer);
    Metrics.CACHED.labelValues(kind).set(cache.size());
  }

  /** Stores the answer to an update, unless the cache has a newer object or none at all. */
  void refresh(T object) {
    cache.computeIfPresent(keyOf(object), (key, known) -> newer(known, object));
  }

  private static <T extends HasMetadata> T newer(T known, T received) {
    return versionOf(known) > versionOf(received) ? known : received;
  }

  private void remove(T object) {
    cache.computeIfPresent(keyOf(object), (key, known) -> versionOf(known) > versionOf(object) ? known : null);
    Metrics.CACHED.labelValues(kind).set(cache.size());
  }

  private static long versionOf(HasMetadata object) {
    return Long.parseLong(object.getMetadata().getResourceVersion());
  }

  private static void exit(String why) {
    System.err.println(why);
    System.exit(1);
  }
}
