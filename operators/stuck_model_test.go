package operators

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// checkCounts compares what the schedule counts with its tasks.
func checkCounts(s *schedule) error {
	stuck, running, used := 0, map[*controllerQueue]int{}, 0
	stuckOf, askedOf := map[*controllerQueue]int{}, map[*controllerQueue]int{}
	live := 0
	for i, task := range s.attempts {
		if task == nil {
			continue
		}
		live++
		if task.position != i || task.state != stateRunning {
			return fmt.Errorf("task %d has position %d and state %d", i, task.position, task.state)
		}
		if task.stuck {
			stuck++
		}
		if task.controller == task.queue.controller {
			running[task.queue]++
			if task.stuck {
				stuckOf[task.queue]++
			}
			if task.urgency == asked {
				askedOf[task.queue]++
			}
		}
	}
	for _, queue := range s.queues {
		if queue.running != running[queue] || queue.stuck != stuckOf[queue] {
			return fmt.Errorf("of %s %d run and %d are stuck; counted are %d and %d",
				queue.name, running[queue], stuckOf[queue], queue.running, queue.stuck)
		}
		if queue.asked != askedOf[queue] {
			return fmt.Errorf("of %s %d run because clients asked; counted are %d", queue.name, askedOf[queue], queue.asked)
		}
		used += min(queue.running-queue.stuck, s.shares.each)
	}
	switch {
	case s.stuck != stuck || s.shares.used != used:
		return fmt.Errorf("%d are stuck and %d of the shares are used; counted are %d and %d", stuck, used, s.stuck, s.shares.used)
	case s.running != live || live+len(s.free) != len(s.attempts) || len(s.attempts) > s.shares.workers+s.shares.stuck:
		return fmt.Errorf("%d run, and %d of %d places are free; counted are %d", live, len(s.free), len(s.attempts), s.running)
	case stuck > s.shares.stuck || live-stuck > s.shares.workers:
		return fmt.Errorf("%d run, and %d of these are stuck, with %d workers", live, stuck, s.shares.workers)
	}
	return nil
}

// Whatever hangs, comes and goes, no limit is exceeded, and nothing is counted wrong.
func TestWhateverHangsTheScheduleKeepsItsLimits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		workers := rapid.SampledFrom([]int{1, 2, 5, 32}).Draw(rt, "workers")
		s := newSchedule(workers, Backoff{First: time.Second, Max: time.Minute}, nil)
		now := time.Unix(0, 0)
		controllers := NewControllers(nil)
		s.openGate(now)
		names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(rt, "controllers")]
		set := func(name string) {
			controllers.Set(name, Controller{Reconcile: missing(name), MaxConcurrent: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "limit")})
			s.setRoster(controllers.published.Load())
		}
		for _, name := range names {
			set(name)
		}
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2:
				for range rapid.IntRange(1, 40).Draw(rt, "requests") {
					object := types.NamespacedName{Name: fmt.Sprint(rapid.IntRange(0, 60).Draw(rt, "object"))}
					s.add(&Request{Controller: name, NamespacedName: object}, now)
				}
			case 3, 4, 5:
				for range rapid.IntRange(1, 40).Draw(rt, "ends") {
					if s.running > 0 {
						running := slices.DeleteFunc(slices.Clone(s.attempts), func(t *task) bool { return t == nil })
						ended := running[rapid.IntRange(0, len(running)-1).Draw(rt, "ended")]
						outcome := rapid.SampledFrom([]Outcome{Succeeded, Failed, Requeued, Ended}).Draw(rt, "outcome")
						s.finish(ended, &Result{Request: ended.request, Outcome: outcome, RequeueAfter: time.Second}, now)
					}
				}
			case 6:
				controllers.Remove(name)
				s.setRoster(controllers.published.Load())
			case 7:
				set(name)
			default:
				now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(rt, "pass")) * time.Millisecond)
				s.tick(now)
				s.noteStuck(now)
			}
			for s.ready() {
				before := s.running
				s.clock = now
				next := s.start()
				queue := next.queue
				if most := queue.controller.MaxConcurrent; most > 0 && queue.running > most || queue.running > workers {
					rt.Fatalf("of %s %d run; allowed are %d, with %d workers", queue.name, queue.running, most, workers)
				}
				if s.running != before+1 {
					rt.Fatalf("a start makes %d of %d", s.running, before)
				}
			}
			if err := checkCounts(s); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// Unless more attempts hang than may count as stuck, an idle controller waits for a second at most, for
// each of the others.
func TestWhateverHangsAnIdleControllerStartsInTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		workers := rapid.SampledFrom([]int{2, 5, 32}).Draw(rt, "workers")
		s := newSchedule(workers, Backoff{}, nil)
		now := time.Unix(0, 0)
		controllers := NewControllers(map[string]Controller{"idle": {Reconcile: missing("idle")}})
		hang := rapid.IntRange(1, 3).Draw(rt, "hang")
		for i := range hang {
			controllers.Set(fmt.Sprint(i), Controller{Reconcile: missing("")})
		}
		s.setRoster(controllers.published.Load())
		s.openGate(now)
		ask := func(name string, n int) {
			for i := range n {
				s.add(&Request{Controller: name, NamespacedName: types.NamespacedName{Name: fmt.Sprint(i)}}, now)
			}
			for s.noteStuck(now); s.ready(); {
				s.clock = now
				s.start()
			}
		}
		for i := range hang {
			ask(fmt.Sprint(i), rapid.IntRange(0, 100).Draw(rt, "stuck"))
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "after")) * time.Millisecond)
		}
		ask("idle", 1)
		for range hang { // In turn with the others, which may be more than there are workers.
			now = now.Add(stuckAfter)
			for s.noteStuck(now); s.ready(); {
				s.clock = now
				s.start()
			}
		}
		if s.queues["idle"].running == 0 {
			rt.Fatalf("the idle one does not run, beside %d attempts of which %d are stuck", s.running, s.stuck)
		}
	})
}
