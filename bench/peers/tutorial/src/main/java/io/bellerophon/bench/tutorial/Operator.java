package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.OwnerReference;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Creates and repairs the children of an object and writes its status, one event at a time. */
class Operator {

  private static final long PROGRESS_MILLIS = 1000;
  private static final long FIRST_RETRY_MILLIS = 100;
  private static final long LAST_RETRY_MILLIS = 30_000;

  final ResourceCache<BellerophonSimple> heroes = new ResourceCache<>("BellerophonSimple");
  final ResourceCache<ConfigMap> configs = new ResourceCache<>("ConfigMap");
  final ResourceCache<Service> services = new ResourceCache<>("Service");
  final ResourceCache<StatefulSet> servers = new ResourceCache<>("StatefulSet");

  private final KubernetesClient client;
  private final ScheduledThreadPoolExecutor callbacks = new ScheduledThreadPoolExecutor(1);

  // Only the callback thread may use these maps.
  private final Map<String, Integer> failures = new HashMap<>();
  private final Map<String, Long> unfinishedSince = new HashMap<>();

  Operator(KubernetesClient client) {
    this.client = client;
  }

  /** Enqueues the object with this namespace and name. Its children have the same key. */
  void enqueue(String key) {
    callbacks.execute(() -> handle(key));
  }

  private void enqueueAfter(String key, long millis) {
    callbacks.schedule(() -> handle(key), millis, TimeUnit.MILLISECONDS);
  }

  private void handle(String key) {
    Metrics.QUEUED.set(callbacks.getQueue().size());
    BellerophonSimple hero = heroes.get(key);
    if (hero == null || hero.isMarkedForDeletion()) {
      failures.remove(key);
      unfinishedSince.remove(key);
      return;
    }
    long start = System.nanoTime();
    try {
      reconcile(key, hero);
      failures.remove(key);
    } catch (KubernetesClientException e) {
      int failed = failures.merge(key, 1, Integer::sum);
      Metrics.ERRORS.inc();
      System.err.println(key + ": " + e.getMessage());
      enqueueAfter(key, Math.min(LAST_RETRY_MILLIS, FIRST_RETRY_MILLIS << Math.min(failed - 1, 10)));
    } catch (RuntimeException e) {
      e.printStackTrace();
      System.exit(1);
    } finally {
      Metrics.CALLBACK.observe((System.nanoTime() - start) / 1e9);
    }
  }

  private void reconcile(String key, BellerophonSimple hero) {
    String taken = ensure(configs, Children.configOf(hero), hero);
    taken = taken + ensure(services, Children.serviceOf(hero), hero);
    taken = taken + ensure(servers, Children.serversOf(hero), hero);
    StatefulSet seen = servers.get(key);
    report(key, hero, new Observation(hero, seen != null && isOurs(seen, hero) ? seen : null), taken);
  }

  /**
   * Writes a child if it is missing or differs. Returns a message if the object with its name has another owner, or an
   * empty string.
   */
  private <T extends HasMetadata> String ensure(ResourceCache<T> cache, T want, BellerophonSimple hero) {
    T seen = cache.get(ResourceCache.keyOf(want));
    if (seen == null) {
      cache.put(client.resource(want).create());
    } else if (seen.isMarkedForDeletion() || wasOfAnOlder(seen, hero)) {
      return ""; // Its deletion will trigger a callback.
    } else if (!isOurs(seen, hero)) {
      return seen.getKind() + " " + seen.getMetadata().getName() + " belongs to another owner. ";
    } else {
      T merged = Merge.into(client.getKubernetesSerialization(), seen, want);
      if (merged == null) {
        return "";
      }
      cache.refresh(client.resource(merged).update());
    }
    Metrics.WRITES.labelValues(want.getKind()).inc();
    return "";
  }

  /**
   * Reports whether a child belongs to the object. A child without a controller but with the operator's label does: it
   * lost its owner reference.
   */
  private static boolean isOurs(HasMetadata child, BellerophonSimple hero) {
    OwnerReference owner = controllerOf(child);
    if (owner != null) {
      return owner.getUid().equals(hero.getMetadata().getUid());
    }
    return "bellerophon".equals(child.getMetadata().getLabels().get(Children.MANAGED_BY));
  }

  private static boolean wasOfAnOlder(HasMetadata child, BellerophonSimple hero) {
    OwnerReference owner = controllerOf(child);
    return owner != null && owner.getKind().equals("BellerophonSimple")
        && owner.getName().equals(hero.getMetadata().getName())
        && !owner.getUid().equals(hero.getMetadata().getUid());
  }

  private static OwnerReference controllerOf(HasMetadata child) {
    return child.getMetadata().getOwnerReferences().stream()
        .filter(owner -> Boolean.TRUE.equals(owner.getController()))
        .findFirst()
        .orElse(null);
  }

  /** Writes the status if it differs: for an unfinished rollout after one second, and then once a second at most. */
  private void report(String key, BellerophonSimple hero, Observation seen, String taken) {
    boolean finished = taken.isEmpty() && seen.finished();
    SimpleStatus status = taken.isEmpty() ? seen.status() : seen.failed("NameConflict", taken);
    if (finished) {
      unfinishedSince.remove(key);
    }
    if (status.equals(hero.getStatus())) {
      return;
    }
    if (!finished) {
      long now = TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
      Long since = unfinishedSince.putIfAbsent(key, now);
      if (since == null) {
        enqueueAfter(key, PROGRESS_MILLIS);
        return;
      }
      if (now - since < PROGRESS_MILLIS) {
        return; // A callback is already scheduled for when the status is due.
      }
      unfinishedSince.put(key, now);
      enqueueAfter(key, PROGRESS_MILLIS);
    }
    BellerophonSimple changed = client.getKubernetesSerialization().clone(hero);
    changed.setStatus(status);
    heroes.refresh(client.resource(changed).updateStatus());
    Metrics.WRITES.labelValues("BellerophonSimple").inc();
  }
}
