package operators

// shares reserves workers for controllers that have little or nothing running. Otherwise one
// controller whose attempts hang could use all workers.
type shares struct {
	workers int
	each    int // workers that are reserved for one controller
	kept    int // workers that are reserved for all controllers but one
	used    int // workers in use out of the reserves, of all controllers
}

// newShares creates the shares of a number of workers.
func newShares(workers int) shares {
	return shares{workers: workers, each: max(1, workers/16)}
}

// resize adapts to the number of controllers. At most half of the workers are reserved, so that
// many idle controllers do not hold back a busy one much.
func (s *shares) resize(controllers int) {
	s.kept = min(max(0, controllers-1)*s.each, s.workers/2)
}

// allow reports whether a controller with own running attempts may start another one, when all
// attempts in total are running. A controller with nothing running always may.
func (s *shares) allow(own, all int) bool {
	if own == 0 || s.kept == 0 {
		return true
	}
	usedByOthers := s.used - min(own, s.each)
	return all+1+max(0, s.kept-usedByOthers) <= s.workers
}

// changed records that the number of running attempts of a controller changed.
func (s *shares) changed(before, now int) { s.used += min(now, s.each) - min(before, s.each) }

// ready reports whether a task is queued whose controller may start another attempt.
func (s *schedule) ready() bool {
	for _, waiting := range s.turns.all() {
		if s.shares.allow(waiting.running, s.running) {
			return true
		}
	}
	return false
}

// next takes the queue whose turn it is. Queues that may not start an attempt now keep their place.
func (s *schedule) next() *controllerQueue {
	for i, waiting := range s.turns.all() {
		if s.shares.allow(waiting.running, s.running) {
			s.turns.remove(i)
			return waiting
		}
	}
	panic("reconcile: nothing is ready")
}

// setRunning records how many attempts of a queue are running.
func (s *schedule) setRunning(changed *controllerQueue, now int) {
	s.shares.changed(changed.running, now)
	changed.running = now
}
