package operators

// shares keeps workers for controllers that have little or nothing running, so that one
// whose attempts hang does not use them all.
type shares struct {
	workers int
	each    int // what is kept for a controller
	kept    int // what is kept for the other controllers of one, together
	used    int // of what is kept for each controller, what it uses
}

func newShares(workers int) shares {
	return shares{workers: workers, each: max(1, workers/16)}
}

// follow adapts to the number of controllers. What is kept is at most half of the workers, so
// that many idle controllers do not hold back a busy one much.
func (s *shares) follow(controllers int) {
	s.kept = min(max(0, controllers-1)*s.each, s.workers/2)
}

// allow reports whether a controller may start another attempt while some are running in
// all. A controller with nothing running always may.
func (s *shares) allow(own, all int) bool {
	if own == 0 || s.kept == 0 {
		return true
	}
	usedByOthers := s.used - min(own, s.each)
	return all+1+max(0, s.kept-usedByOthers) <= s.workers
}

// changed notes that a controller runs another number of attempts.
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

// next takes the line whose turn it is. Lines that may not start an attempt now keep their
// place.
func (s *schedule) next() *line {
	for i, waiting := range s.turns.all() {
		if s.shares.allow(waiting.running, s.running) {
			s.turns.remove(i)
			return waiting
		}
	}
	panic("reconcile: nothing is ready")
}

// runs notes that a line runs another number of attempts.
func (s *schedule) runs(changed *line, now int) {
	s.shares.changed(changed.running, now)
	changed.running = now
}
