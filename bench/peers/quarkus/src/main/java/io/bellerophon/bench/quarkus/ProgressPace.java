package io.bellerophon.bench.quarkus;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import jakarta.inject.Singleton;
import java.time.Duration;
import java.time.Instant;

/**
 * Decides when the status of an unfinished rollout is due: once a second at most, and not in the first second, because
 * most objects finish within it. A forgotten entry delays a status by one second, no more.
 */
@Singleton
class ProgressPace {

  private static final Duration EVERY = Duration.ofSeconds(1);

  private final Cache<String, Instant> last = Caffeine.newBuilder().expireAfterAccess(Duration.ofMinutes(1)).build();

  /** Returns how long the status is still held back. After zero, the next one is due a second from now. */
  Duration waitFor(BellerophonSimple hero) {
    Instant now = Instant.now();
    Instant since = last.get(hero.getMetadata().getUid(), uid -> now);
    Duration left = EVERY.minus(Duration.between(since, now));
    if (left.compareTo(Duration.ZERO) > 0) {
      return left;
    }
    last.put(hero.getMetadata().getUid(), now);
    return Duration.ZERO;
  }

  void finished(BellerophonSimple hero) {
    last.invalidate(hero.getMetadata().getUid());
  }
}
