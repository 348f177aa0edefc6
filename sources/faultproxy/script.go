package faultproxy

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// script decides which fault applies to a request, and counts both.
type script struct {
	mu       sync.Mutex
	faults   []*scripted
	requests map[string]int
	struck   map[Action]int
}

// scripted is a fault of the script, with the numbers of its matches and applications so far.
type scripted struct {
	Fault
	matched, struck int
}

func newScript() *script {
	return &script{requests: map[string]int{}, struck: map[Action]int{}}
}

// Inject appends faults to the script. If one of them is not valid, Inject appends none and returns
// an error.
func (p *Proxy) Inject(faults ...Fault) error {
	var added []*scripted
	for i, fault := range faults {
		fault, err := fault.withDefaults()
		if err != nil {
			return fmt.Errorf("faultproxy: fault %d: %w", i+1, err)
		}
		added = append(added, &scripted{Fault: fault})
	}
	p.script.mu.Lock()
	defer p.script.mu.Unlock()
	p.script.faults = append(p.script.faults, added...)
	return nil
}

// Heal removes all faults from the script and thaws the connections. Requests that hang and streams
// that are stalled stay so, as after a real outage.
func (p *Proxy) Heal() {
	p.script.mu.Lock()
	p.script.faults = nil
	p.script.mu.Unlock()
	p.Thaw()
}

// Counts holds numbers of requests, faults, streams and connections of a proxy.
type Counts struct {
	Requests    map[string]int // by verb and resource, such as "list configmaps"
	Faults      map[Action]int // faults of the script, and streams hit by Proxy.Cut, Proxy.Stall and, as Refuse, Proxy.Expire
	Streams     int            // requests in flight
	Connections int            // open connections of clients
}

// Counts returns the counts so far.
func (p *Proxy) Counts() Counts {
	p.script.mu.Lock()
	requests, struck := maps.Clone(p.script.requests), maps.Clone(p.script.struck)
	p.script.mu.Unlock()
	return Counts{Requests: requests, Faults: struck, Streams: p.streams.count(), Connections: p.connections.count()}
}

// decide counts a request and returns the fault that applies to it, if any.
func (s *script) decide(request Match) (fault Fault, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[request.Verb+" "+request.Resource]++
	for _, candidate := range s.faults {
		if !candidate.matches(request) {
			continue
		}
		candidate.matched++
		if !found && candidate.matched >= candidate.Nth {
			candidate.struck++
			fault, found = candidate.Fault, true
		}
	}
	s.faults = slices.DeleteFunc(s.faults, func(f *scripted) bool { return f.Times != Always && f.struck >= f.Times })
	if found {
		s.struck[fault.Action]++
	}
	return fault, found
}

func (s *script) count(action Action, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.struck[action] += times
}
