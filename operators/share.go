package operators

// shares reserves workers for controllers that have little or nothing running. Otherwise one
// controller whose attempts hang could use all workers.
type shares struct {
	workers int
	each    int // workers that are reserved for one controller
	kept    int // workers that are reserved for all controllers but one
	used    int // workers in use out of the reserves, of all controllers
	spare   int // workers beyond the others, for a controller that finds all of them in use by one
}

// newShares creates the shares of a number of workers.
func newShares(workers int) shares {
	made := shares{workers: workers, each: max(1, workers/16)}
	if workers > 1 { // A single worker makes attempts one after the other, whatever comes.
		made.spare = made.each
	}
	return made
}

// most returns the number of workers to run.
func (s *shares) most() int { return s.workers + s.spare }

// resize adapts to the number of controllers. At most half of the workers are reserved, so that
// many idle controllers do not hold back a busy one much.
func (s *shares) resize(controllers int) {
	s.kept = min(max(0, controllers-1)*s.each, s.workers/2)
}

// allow reports whether a controller with own running attempts may start another one, when all
// attempts in total are running. A controller with nothing running may if a worker is free.
func (s *shares) allow(own, all int) bool {
	if all >= s.workers {
		return false
	}
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
		if s.mayStart(waiting) {
			return true
		}
	}
	return false
}

// needsSpare reports whether all of the started workers are in use, and another one may be started.
func (s *schedule) needsSpare(started int) bool {
	return s.running >= started && started < s.shares.most()
}

// mayStart reports whether a controller may start another attempt. A controller that was added while
// another one, which was alone, used all workers gets a spare one: those attempts may hang.
func (s *schedule) mayStart(waiting *controllerQueue) bool {
	if most := waiting.controller.MaxConcurrent; most > 0 && waiting.running >= most {
		return false
	}
	if s.shares.allow(waiting.running, s.running) {
		return true
	}
	if waiting.running > 0 || s.running < s.shares.workers || s.running >= s.shares.most() {
		return false
	}
	for _, queue := range s.queues {
		if queue != waiting && queue.running > s.shares.workers-s.shares.each {
			return true
		}
	}
	return false
}

// next takes the queue whose turn it is. Queues that may not start an attempt now keep their place.
func (s *schedule) next() *controllerQueue {
	for i, waiting := range s.turns.all() {
		if s.mayStart(waiting) {
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
