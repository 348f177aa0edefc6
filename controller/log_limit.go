package controller

import (
	"context"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

const (
	maxRecords     = 100            // of one message, in a second; zap's default for production is the same
	maxRepeated    = maxRecords / 2 // of them, about objects that had a record of the message lately, so that others get the rest
	loggedSubjects = 4096           // subjects that count as logged lately
)

// logLimit bounds the records about failures. Each failing object backs off, but without a common bound a
// thousand objects that fail write a thousand times as much as one. The records that are left out are counted,
// and a summary reports them.
type logLimit struct {
	log      *slog.Logger
	dropped  prometheus.Counter
	overflow chan struct{} // has an item if records were left out since the last summary

	seed   maphash.Seed
	logged *lru.Cache[uint64, struct{}] // the hashes of subjects: a collision costs one record at most

	mu      sync.Mutex
	began   time.Time           // of the second that counts
	written map[string]*written // by message, in this second
	left    map[string]int      // records that were left out since the last summary, by message
}

// written counts the records of one message in a second.
type written struct{ all, repeated int }

// subject is what a record is about. The object may be missing.
type subject struct {
	message, controller string
	object              types.NamespacedName
}

// newLogLimit creates the limit of a logger.
func newLogLimit(log *slog.Logger, dropped prometheus.Counter) (*logLimit, error) {
	logged, err := lru.New[uint64, struct{}](loggedSubjects)
	return &logLimit{
		log: log, dropped: dropped, overflow: make(chan struct{}, 1), seed: maphash.MakeSeed(), logged: logged,
		written: map[string]*written{}, left: map[string]int{},
	}, err
}

// boundedLog writes records about one object of a controller, as far as the limit admits them.
type boundedLog struct {
	limit      *logLimit
	controller string
	object     types.NamespacedName
	attributes []any // of each record
}

// Warn writes a record of level Warn.
func (b boundedLog) Warn(message string, attributes ...any) {
	b.write(slog.LevelWarn, message, attributes)
}

// Error writes a record of level Error.
func (b boundedLog) Error(message string, attributes ...any) {
	b.write(slog.LevelError, message, attributes)
}

func (b boundedLog) write(level slog.Level, message string, attributes []any) {
	ctx := context.Background()
	if b.limit.log.Enabled(ctx, level) && b.limit.admits(subject{message, b.controller, b.object}) { // What the level hides is not left out.
		b.limit.log.Log(ctx, level, message, slices.Concat(b.attributes, attributes)...)
	}
}

// admits reports whether a record may be written now, and counts it.
func (l *logLimit) admits(about subject) bool {
	hash := maphash.Comparable(l.seed, about)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= time.Second {
		l.began = now
		clear(l.written)
	}
	count := l.written[about.message]
	if count == nil {
		count = &written{}
		l.written[about.message] = count
	}
	isRepeated := l.logged.Contains(hash)
	if count.all == maxRecords || isRepeated && count.repeated == maxRepeated {
		l.left[about.message]++
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
	l.logged.Add(hash, struct{}{})
	return true
}

// run writes the summaries until ctx ends. ctx ends after the last record, so the last summary completes the count.
func (l *logLimit) run(ctx context.Context) error {
	for {
		select {
		case <-l.overflow:
		case <-ctx.Done():
			l.summarize()
			return nil
		}
		l.mu.Lock()
		ends := l.began.Add(time.Second)
		l.mu.Unlock()
		select {
		case <-time.After(time.Until(ends)):
		case <-ctx.Done():
		}
		l.summarize()
	}
}

// summarize writes a record for each message with records that were left out.
func (l *logLimit) summarize() {
	l.mu.Lock()
	left := l.left
	l.left = map[string]int{}
	l.mu.Unlock()
	for _, message := range slices.Sorted(maps.Keys(left)) {
		l.log.Warn("records of a message were left out", "message", message, "dropped", left[message])
	}
}
