package io.bellerophon.bench.quarkus;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import jakarta.inject.Singleton;
import java.time.Duration;
import java.time.Instant;

/**
 * Says when a status on its way is due: once a second at most, and not in the first one, because most objects are
 * finished by then. What it has forgotten costs a second, no more.
 */
@Singleton
class ProgressPace {

  private static final Duration EVERY = Duration.ofSeconds(1);

  private final Cache<String, Instant> last = Caffeine.newBuilder().expireAfterAccess(Duration.ofMinutes(1)).build();

  /** How long to wait still; if that is nothing, the next is due a second from now. */
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
