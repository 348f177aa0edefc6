package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/controller/introspection"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostFailures bounds the keys of a controller that an introspection lists. Their number is always there.
const mostFailures = 100

// mostSlow bounds the keys of a controller that an introspection lists by the durations of their last attempts.
const mostSlow = 10

// The times of an introspection that follows.
const (
	followPause    = 250 * time.Millisecond // between two answers
	followAlive    = 5 * time.Second        // until an answer comes even if nothing has changed
	followPatience = 10 * time.Second       // with a client that does not read
)

// introspect answers with the state of the manager as JSON. With follow=true further answers follow: when attempts have ended or the
// level of sync has changed, at most one in followPause, and at least one in followAlive.
func (m *Manager) introspect(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	if request.URL.Query().Get("follow") != "true" {
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(m.introspection(mostSlow)) // The client may have gone.
		return
	}
	group := lifecycle.New(request.Context())
	defer func() {
		group.Stop()
		_ = group.Wait() // It only has the error of its context.
	}()
	ctx := group.Context()
	defer context.AfterFunc(m.context(), group.Stop)()
	levels := make(chan struct{}, 1)
	group.Go("levels", func(ctx context.Context) error {
		return streams.ForEach(ctx, m.cache.Levels(), func([]cache.Level) {
			select {
			case levels <- struct{}{}:
			default: // An answer is due anyway.
			}
		}, func(error) {}) // The levels have no errors.
	})
	control := http.NewResponseController(w)
	for {
		var updated <-chan struct{} // Without a history, the levels count alone.
		if m.history != nil {
			updated = m.history.Updated()
		}
		_ = control.SetWriteDeadline(time.Now().Add(followPatience)) // A client that does not read may not keep the connection.
		if encoder.Encode(m.introspection(mostSlow)) != nil || control.Flush() != nil {
			return
		}
		alive := time.After(followAlive)
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return
		}
		select {
		case <-updated:
		case <-levels:
		case <-alive:
		case <-ctx.Done():
			return
		}
	}
}

// introspection returns the state of the manager, with the keys of each controller whose last attempts took longest: at most
// slow of them.
func (m *Manager) introspection(slow int) introspection.State {
	present, waits := m.present.Load(), m.waits()
	made := introspection.State{Time: time.Now().UTC(), Started: m.made.UTC(), Level: m.cache.Level(), Notes: m.notes(), Leader: m.leader.introspect(), Workers: m.options.Workers,
		Loop: m.cache.Loop().Duration().Seconds(), Quiet: m.cache.Loop().QuietPeriod().Seconds(), Stages: []introspection.Stage{}, Controllers: []introspection.Controller{}, Kinds: []introspection.Kind{}}
	made.Next = nextLevelOf(made.Level, m.cache.Pending)
	for _, stage := range m.pipeline.Counts() {
		made.Stages = append(made.Stages, introspection.Stage{Name: stage.Name, In: stage.In, Out: stage.Out, Waiting: stage.Waiting})
	}
	var slowest map[string][]history.Slow
	var findings []history.Finding
	if m.history != nil {
		findings = m.history.Findings()
	}
	if m.history != nil && slow > 0 {
		slowest = m.history.Slowest(slow)
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		shown := introspection.Controller{Name: name, State: "standing by", WaitsFor: waits[name], InFlight: []introspection.Attempt{}, Backoffs: []introspection.Failure{}, Slowest: []introspection.Slow{}, Patterns: []introspection.Pattern{}}
		if member := present.members[name]; member != nil {
			m.introspectMember(member, &shown)
		}
		for _, slow := range slowest[name] {
			shown.Slowest = append(shown.Slowest, introspection.Slow{Key: slow.Object.String(), Seconds: slow.Took.Seconds(), ID: slow.ID, Ended: slow.Ended.UTC()})
		}
		for i := range findings {
			if findings[i].Controller == name {
				shown.Patterns = append(shown.Patterns, introspection.PatternOf(&findings[i]))
			}
		}
		slices.SortFunc(shown.Patterns, func(a, b introspection.Pattern) int { return strings.Compare(a.Key, b.Key) })
		made.Controllers = append(made.Controllers, shown)
	}
	for _, watched := range present.watches {
		made.Kinds = append(made.Kinds, introspectWatch(watched))
	}
	for _, used := range present.uses {
		made.Kinds = append(made.Kinds, introspection.Kind{Kind: used.form.as.GroupKind().String(), Use: "live"})
	}
	for i := range made.Kinds {
		made.Kinds[i].Controllers = present.users(made.Kinds[i].Kind)
	}
	slices.SortFunc(made.Kinds, func(a, b introspection.Kind) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Use, b.Use))
	})
	return made
}

// introspect returns the election as this replica sees it, or nil without one.
func (l *leader) introspect() *introspection.Leader {
	if l == nil {
		return nil
	}
	holder, _ := l.elector.Holder()
	return &introspection.Leader{Leads: l.elector.Epoch() != nil, Identity: l.identity, Holder: holder}
}

// nextLevelOf returns the level above one, and what it waits for. pending says what that is.
func nextLevelOf(level cache.Level, pending func(cache.Level) []string) *introspection.NextLevel {
	if level >= cache.Converged {
		return nil
	}
	next := &introspection.NextLevel{Level: level + 1, Missing: pending(level + 1)}
	if len(next.Missing) == 0 {
		next.Missing = []string{"nothing is pending; the quiet period is not over"}
	}
	return next
}

func (m *Manager) introspectMember(of *member, shown *introspection.Controller) {
	switch {
	case of.isBlocked():
		shown.State = "waiting for kinds"
	case of.joins.Load():
		shown.State = "joining"
	default:
		shown.State = "working"
	}
	kinds := kindsOf(of.watches)
	shown.Level = m.cache.LevelOf(kinds...)
	shown.Next = nextLevelOf(shown.Level, func(next cache.Level) []string { return m.pendingOf(kinds, next) })
	stats := of.controller.Stats
	shown.Queued, shown.Held = stats.Waiting.Load(), stats.Held.Load()
	shown.InFlight = append(shown.InFlight, of.attempts.list()...)
	shown.Attempts, shown.Errors, shown.Writes = of.attempts.counts()
	count := m.pipeline.CountUnfinished(of.name)
	shown.Unfinished, shown.Failed, shown.Failing, shown.Terminal = count.Keys, count.Failed, count.Failing, count.Terminal
	for _, failure := range m.pipeline.Failures(of.name, mostFailures) {
		listed := introspection.Failure{Key: failure.NamespacedName.String(), Failures: failure.Failures, Reason: failure.Reason, Terminal: failure.Terminal}
		if !failure.Due.IsZero() {
			due := failure.Due.UTC()
			listed.Due = &due
		}
		shown.Backoffs = append(shown.Backoffs, listed)
	}
}

// pendingOf returns what a level waits for as far as it concerns some kinds: these, and the pipeline.
func (m *Manager) pendingOf(kinds []schema.GroupKind, level cache.Level) (pending []string) {
	for _, kind := range kinds {
		if store := m.cache.Store(kind); store != nil && store.Level() < min(level, cache.OwnWritesVisible) {
			pending = append(pending, kind.String())
		}
	}
	return append(pending, m.pipeline.Pending(level)...)
}

func introspectWatch(of *watched) introspection.Kind {
	shown := introspection.Kind{Kind: of.kind.GroupKind().String(), Use: "watched"}
	if of.demand.restricts {
		shown.Use = "on demand"
	}
	store := of.store()
	if store == nil {
		return shown
	}
	shown.Watch = sources.WatchState(of.options.Status.State.Load()).String()
	shown.Level, shown.Counts, shown.Objects, shown.Bytes = store.Level(), store.IsCounted(), store.Len(), store.Bytes()
	if since, came := of.options.Status.Quiet(); came {
		shown.LastEvent = new(time.Now().Add(-since).UTC())
	}
	return shown
}

// users returns the controllers that name a kind.
func (p *present) users(kind string) []string {
	users := []string{}
	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		member := p.members[name]
		named := slices.ContainsFunc(slices.Concat(member.watches, member.optional), func(of *watched) bool { return of.kind.GroupKind().String() == kind })
		if named || slices.ContainsFunc(member.uses, func(of *used) bool { return of.form.as.GroupKind().String() == kind }) {
			users = append(users, name)
		}
	}
	return users
}
