package operators

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"pgregory.net/rapid"
)

// crowd is a schedule of one controller with several workers.
type crowd struct {
	*priorities
	running []*task
}

func newCrowd(workers int) *crowd {
	made := &crowd{priorities: newPriorities()}
	made.shares = newShares(workers)
	made.shares.resize(1)
	return made
}

// asks asks for a number of objects that clients added, and follows for a number of follow-ups.
func (c *crowd) asks(n int) {
	for range n {
		c.ask(changed(fmt.Sprint("added", c.now.UnixMilli()), streams.Applied))
	}
}

func (c *crowd) follows(n int) {
	for range n {
		c.ask(requestOf(fmt.Sprint("child", c.now.UnixMilli()), false, streams.Applied))
	}
}

// fill starts what may start, and returns how many of each kind run.
func (c *crowd) fill() (ofClients, followUps int) {
	for c.ready() {
		c.clock = c.now
		c.running = append(c.running, c.start())
	}
	return c.count()
}

func (c *crowd) count() (ofClients, followUps int) {
	for _, next := range c.running {
		if next.request.SpecChanged {
			ofClients++
		} else {
			followUps++
		}
	}
	return ofClients, followUps
}

// end ends the attempts of one kind.
func (c *crowd) end(ofClients bool) {
	c.running = slices.DeleteFunc(c.running, func(next *task) bool {
		ends := next.request.SpecChanged == ofClients
		if ends {
			c.finish(next, &Result{Request: next.request, Outcome: Succeeded}, c.now)
		}
		return ends
	})
}

func TestFollowUpsLeaveWorkersForObjectsThatClientsAdd(t *testing.T) {
	c := newCrowd(32)
	c.asks(14)
	c.fill()
	c.follows(40)
	if asked, followUps := c.fill(); asked != 14 || followUps != 10 { // A quarter of 32 stays free.
		t.Errorf("beside %d objects of clients, %d follow-ups run, want 10 beside 14", asked, followUps)
	}
	c.asks(8)
	if asked, followUps := c.fill(); asked != 22 || followUps != 10 {
		t.Errorf("%d objects of clients and %d follow-ups run, want 22 and 10: no new object waits", asked, followUps)
	}
	c.end(true)
	if asked, followUps := c.fill(); asked != 0 || followUps != 32 {
		t.Errorf("after the objects of clients, %d and %d run, want all workers for follow-ups", asked, followUps)
	}
}

func TestFewObjectsOfClientsKeepFewWorkersFree(t *testing.T) {
	c := newCrowd(32)
	c.asks(1)
	c.fill()
	c.follows(40)
	if asked, followUps := c.fill(); asked != 1 || followUps != 30 {
		t.Errorf("beside %d objects of clients, %d follow-ups run, want 30 beside 1", asked, followUps)
	}
}

func TestFollowUpsHaveAQuarterOfTheWorkersWhateverClientsDo(t *testing.T) {
	c := newCrowd(32)
	c.asks(24)
	c.fill()
	c.follows(40)
	if asked, followUps := c.fill(); asked != 24 || followUps != 8 {
		t.Errorf("beside %d objects of clients, %d follow-ups run, want 8 beside 24", asked, followUps)
	}
}

func TestAControllerWithFewWorkersUsesAllOfThem(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		c := newCrowd(workers)
		c.asks(workers - 1)
		c.fill()
		c.follows(10)
		if asked, followUps := c.fill(); asked+followUps != workers {
			t.Errorf("of %d workers, %d and %d are busy", workers, asked, followUps)
		}
	}
}

// As long as attempts end, everything that was asked for is worked on. A worker is free beside a follow-up that waits
// only while objects of clients are worked on.
func TestNoReserveKeepsATaskWaitingForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.SampledFrom([]int{1, 4, 7, 32}).Draw(t, "workers")
		c := newCrowd(workers)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				c.asks(rapid.IntRange(1, workers).Draw(t, "added"))
			case 1:
				c.follows(rapid.IntRange(1, workers).Draw(t, "children"))
			default:
				if len(c.running) > 0 {
					i := rapid.IntRange(0, len(c.running)-1).Draw(t, "ended")
					ended := c.running[i]
					c.running = slices.Delete(c.running, i, i+1)
					c.finish(ended, &Result{Request: ended.request, Outcome: Succeeded}, c.now)
				}
			}
			asked, followUps := c.fill()
			if free := workers - asked - followUps; c.queued > 0 && free > min(asked, workers/4) {
				t.Fatalf("%d wait, while %d of %d workers are free beside %d objects of clients", c.queued, free, workers, asked)
			}
			if err := checkCounts(c.schedule); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			c.end(true)
			c.end(false)
			if c.fill(); len(c.running) == 0 {
				break
			}
		}
		if c.queued > 0 {
			t.Fatalf("%d tasks wait for ever", c.queued)
		}
	})
}

func TestTheReserveCountsForTheControllerThatRuns(t *testing.T) {
	c := newCrowd(32)
	c.asks(8)
	c.fill()
	controllers := NewControllers(map[string]Controller{"c": {Reconcile: missing("c"), Timeout: time.Second}})
	c.setRoster(controllers.published.Load()) // Replaces the controller.
	if err := checkCounts(c.schedule); err != nil {
		t.Error(err)
	}
	c.end(true)
	if err := checkCounts(c.schedule); err != nil {
		t.Error(err)
	}
}
