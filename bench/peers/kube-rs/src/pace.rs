//! How long the `StatefulSet` controller takes to follow lately.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How often the status of an unfinished rollout is written. A shorter state is not reported.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The longest time for which the first status of a new object is held back.
const MOST_HELD: Duration = Duration::from_secs(120);

/// How long a pace is known after the latest measurement.
const MEMORY: Duration = Duration::from_secs(60);

/// While the `StatefulSet` controller is behind, the API server is the bottleneck, and the first status
/// of a new object may be held back for twice as long as that controller takes.
#[derive(Default)]
pub struct Pace(Mutex<Option<(Duration, Instant)>>);

impl Pace {
    /// Records that the controller has followed after a time.
    pub fn took(&self, duration: Duration, now: Instant) {
        let mut known = self.lock();
        let typical = match *known {
            Some((typical, ended)) if now - ended <= MEMORY => (4 * typical + duration) / 5,
            _ => duration,
        };
        *known = Some((typical, now));
    }

    /// Returns how long the first status of a new object is held back.
    pub fn held(&self, now: Instant) -> Duration {
        match *self.lock() {
            Some((typical, ended)) if now - ended <= MEMORY => (2 * typical).clamp(PROGRESS_EVERY, MOST_HELD),
            _ => PROGRESS_EVERY,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Duration, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_status_is_held_back_twice_as_long_as_the_controller_takes() {
        for (took, want) in [(0, 1), (5, 10), (3600, 120)] {
            let (pace, now) = (Pace::default(), Instant::now());
            assert_eq!(pace.held(now), PROGRESS_EVERY);
            pace.took(Duration::from_secs(took), now);
            assert_eq!(pace.held(now), Duration::from_secs(want), "after {took} s");
            assert_eq!(pace.held(now + 2 * MEMORY), PROGRESS_EVERY);
        }
    }
}
