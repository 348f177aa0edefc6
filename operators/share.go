package operators

// shares reserves workers for controllers that have little or nothing running. Otherwise one
// controller whose attempts hang could use all workers.
type shares struct {
	workers int
	each    int // workers that are reserved for one controller
	kept    int // workers that are reserved for all controllers but one
	used    int // workers in use out of the reserves, of all controllers
	stuck   int // attempts that may count as stuck at once: see stuckAfter
}

// stuckForWorker bounds the attempts that count as stuck at once, for each worker. So at most four
// times as many attempts run as there are workers.
const stuckForWorker = 3

// newShares creates the shares of a number of workers.
func newShares(workers int) shares {
	made := shares{workers: workers, each: max(1, workers/16)}
	if workers > 1 { // A single worker makes attempts one after the other, whatever comes.
		made.stuck = stuckForWorker * workers
	}
	return made
}

// resize adapts to the number of controllers. At most half of the workers are reserved, so that
// many idle controllers do not hold back a busy one much.
func (s *shares) resize(controllers int) {
	s.kept = min(max(0, controllers-1)*s.each, s.workers/2)
}

// allow reports whether a controller may start another attempt. The controller has own attempts in
// flight. The number of stuck attempts is a part of these. In live, the attempts in flight of all
// controllers count, without stuck ones. A controller with nothing running may if a worker is free.
func (s *shares) allow(own, stuck, live int) bool {
	if live >= s.workers {
		return false
	}
	if own == 0 {
		return true
	}
	if own >= s.workers-s.kept { // A controller gains nothing by attempts that are stuck.
		return false
	}
	usedByOthers := s.used - min(own-stuck, s.each)
	return live+1+max(0, s.kept-usedByOthers) <= s.workers
}

// changed records that the number of live attempts of a controller changed.
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

// mayStart reports whether a controller may start another attempt.
func (s *schedule) mayStart(waiting *controllerQueue) bool {
	if most := waiting.controller.MaxConcurrent; most > 0 && waiting.running >= most {
		return false
	}
	return s.shares.allow(waiting.running, waiting.stuck, s.running-s.stuck) && (waiting.queued.hasAsked() || s.mayFollowUp(waiting))
}

// mayFollowUp reports whether a controller may start an attempt that no client asked for: a follow-up, an object of a list
// or a routine check. Clients that add or change objects often go on, so as many workers stay free as work
// on such objects now, up to a quarter. Another quarter is for follow-ups, whatever clients do.
func (s *schedule) mayFollowUp(of *controllerQueue) bool {
	workers := s.shares.workers - s.shares.kept
	if most := of.controller.MaxConcurrent; most > 0 {
		workers = min(workers, most)
	}
	quarter := workers / 4
	return of.running+min(of.asked, quarter) < workers || of.running-of.asked < quarter
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

// setRunning records how many attempts of a queue are running, and how many of these are stuck.
func (s *schedule) setRunning(changed *controllerQueue, running, stuck int) {
	s.shares.changed(changed.running-changed.stuck, running-stuck)
	changed.running, changed.stuck = running, stuck
}
