// Package loglimit bounds the records of a log. A storm of records about one thing leaves room for the first record
// about another one.
package loglimit

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// The bounds.
const (
	DefaultRate = 100  // records of a group in a second; zap's default for production is the same
	remembered  = 4096 // the subjects that count as logged lately
)

// Limit bounds the records of each group in a second. At most half of them are about subjects that had a record in
// their group lately, so that others get the rest. The records that are left out are counted, and reported after
// the second. Create a limit with [New], and call Run.
type Limit[Group, Subject comparable] struct {
	rate     int
	dropped  prometheus.Counter
	report   func(left map[Group]int)
	overflow chan struct{} // has an item if records were left out since the last report

	seed   maphash.Seed
	logged *lru.Cache[uint64, struct{}] // the hashes of groups and subjects: a collision costs one record at most

	mu      sync.Mutex
	began   time.Time         // of the second that counts
	written map[Group]written // in this second
	left    map[Group]int     // records that were left out since the last report
}

// written counts the records of one group in a second.
type written struct{ all, repeated int }

// New creates a limit with a number of records a second for each group. report writes how many records were left
// out, by group.
func New[Group, Subject comparable](rate int, dropped prometheus.Counter, report func(left map[Group]int)) (*Limit[Group, Subject], error) {
	logged, err := lru.New[uint64, struct{}](remembered)
	return &Limit[Group, Subject]{
		rate: rate, dropped: dropped, report: report, overflow: make(chan struct{}, 1), seed: maphash.MakeSeed(), logged: logged,
		written: map[Group]written{}, left: map[Group]int{},
	}, err
}

// Admits reports whether a record may be written now, and counts it.
func (l *Limit[Group, Subject]) Admits(of Group, about Subject) bool {
	hash := maphash.Comparable(l.seed, struct {
		of    Group
		about Subject
	}{of, about})
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= time.Second {
		l.began = now
		clear(l.written)
	}
	count, isRepeated := l.written[of], l.logged.Contains(hash)
	if count.all == l.rate || isRepeated && count.repeated == (l.rate+1)/2 {
		l.left[of]++
		l.dropped.Inc()
		select {
		case l.overflow <- struct{}{}:
		default:
		}
		return false
	}
	count.all++
	if isRepeated {
		count.repeated++
	}
	l.written[of] = count
	l.logged.Add(hash, struct{}{})
	return true
}

// Run reports until ctx ends. If ctx ends after the last record, the last report completes the count.
func (l *Limit[Group, Subject]) Run(ctx context.Context) error {
	for {
		select {
		case <-l.overflow:
		case <-ctx.Done():
			l.reportLeft()
			return nil
		}
		l.mu.Lock()
		ends := l.began.Add(time.Second)
		l.mu.Unlock()
		select {
		case <-time.After(time.Until(ends)):
		case <-ctx.Done():
		}
		l.reportLeft()
	}
}

// reportLeft reports the records that were left out, if there are any.
func (l *Limit[Group, Subject]) reportLeft() {
	l.mu.Lock()
	left := l.left
	l.left = map[Group]int{}
	l.mu.Unlock()
	if len(left) > 0 {
		l.report(left)
	}
}

// Dropped returns the metric of the records that limits leave out. A manager and a webhook server may share a
// registry, so Dropped returns the registered one if there is one.
func Dropped(registry *prometheus.Registry) (prometheus.Counter, error) {
	made := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bellerophon_log_records_dropped_total", Help: "Records that were left out of the log, because there were too many.",
	})
	err := registry.Register(made)
	if registered := (prometheus.AlreadyRegisteredError{}); errors.As(err, &registered) {
		if existing, is := registered.ExistingCollector.(prometheus.Counter); is {
			return existing, nil
		}
	}
	return made, err
}
