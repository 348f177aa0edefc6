package controller

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/sources"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostFailures bounds the keys of a controller that an introspection lists. Their number is always there.
const mostFailures = 100

// introspection is the answer of /debug/manager. It has names and numbers, and nothing else of objects.
type introspection struct {
	Time        time.Time                `json:"time"`
	Level       cache.Level              `json:"level"`
	Next        *nextLevel               `json:"next,omitempty"` // missing at the highest level
	Notes       []string                 `json:"notes,omitempty"`
	Controllers []introspectedController `json:"controllers"`
	Kinds       []introspectedKind       `json:"kinds"`
}

// nextLevel is the level above the one that is reached, and what it waits for.
type nextLevel struct {
	Level   cache.Level `json:"level"`
	Missing []string    `json:"missing"`
}

type introspectedController struct {
	Name       string                `json:"name"`
	State      string                `json:"state"` // standing by, waiting for kinds, joining, working
	Level      cache.Level           `json:"level"`
	Next       *nextLevel            `json:"next,omitempty"`
	WaitsFor   []string              `json:"waitsFor,omitempty"` // kinds that the server does not serve or forbids
	Queued     int64                 `json:"queued"`             // keys that are queued, or soon due again
	Held       int64                 `json:"held"`               // some of the queued keys: they wait until the kinds are current
	InFlight   []introspectedAttempt `json:"inFlight"`
	Unfinished int                   `json:"unfinished"` // keys that are due again, or have failed for good
	Failing    int                   `json:"failing"`    // some of the unfinished: failed three times in a row or more
	Terminal   int                   `json:"terminal"`   // some of the unfinished: failed for good
	Backoffs   []introspectedFailure `json:"backoffs"`   // the first keys whose last attempt failed
}

type introspectedAttempt struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

type introspectedFailure struct {
	Key      string     `json:"key"`
	Failures int        `json:"failures"` // in a row
	Reason   string     `json:"reason"`   // without the message of the error
	Terminal bool       `json:"terminal,omitempty"`
	Due      *time.Time `json:"due,omitempty"` // when the next attempt is due
}

type introspectedKind struct {
	Kind        string      `json:"kind"`
	Use         string      `json:"use"` // watched, on demand, live
	Controllers []string    `json:"controllers"`
	Watch       string      `json:"watch,omitempty"` // listing, watching, backing_off
	Level       cache.Level `json:"level"`
	Counts      bool        `json:"counts"` // for the level of the manager
	Objects     int         `json:"objects"`
	Bytes       int64       `json:"bytes"` // an estimate
	LastEvent   *time.Time  `json:"lastEvent,omitempty"`
}

// introspect answers with the state of the manager as JSON.
func (m *Manager) introspect(w http.ResponseWriter, _ *http.Request) {
	encoded, err := json.MarshalIndent(m.introspection(), "", "  ")
	if err != nil {
		http.Error(w, "the state cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(encoded, '\n')) // The client may have gone.
}

func (m *Manager) introspection() introspection {
	present, waits := m.present.Load(), m.waits()
	made := introspection{Time: time.Now().UTC(), Level: m.cache.Level(), Notes: m.notes(), Controllers: []introspectedController{}, Kinds: []introspectedKind{}}
	made.Next = nextLevelOf(made.Level, m.cache.Pending)
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		shown := introspectedController{Name: name, State: "standing by", WaitsFor: waits[name], InFlight: []introspectedAttempt{}, Backoffs: []introspectedFailure{}}
		if member := present.members[name]; member != nil {
			m.introspectMember(member, &shown)
		}
		made.Controllers = append(made.Controllers, shown)
	}
	for _, watched := range present.watches {
		made.Kinds = append(made.Kinds, introspectWatch(watched))
	}
	for _, used := range present.uses {
		made.Kinds = append(made.Kinds, introspectedKind{Kind: used.form.as.GroupKind().String(), Use: "live"})
	}
	for i := range made.Kinds {
		made.Kinds[i].Controllers = present.users(made.Kinds[i].Kind)
	}
	slices.SortFunc(made.Kinds, func(a, b introspectedKind) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Use, b.Use))
	})
	return made
}

// nextLevelOf returns the level above one, and what it waits for. pending says what that is.
func nextLevelOf(level cache.Level, pending func(cache.Level) []string) *nextLevel {
	if level >= cache.Converged {
		return nil
	}
	next := &nextLevel{Level: level + 1, Missing: pending(level + 1)}
	if len(next.Missing) == 0 {
		next.Missing = []string{"nothing is pending; the quiet period is not over"}
	}
	return next
}

func (m *Manager) introspectMember(of *member, shown *introspectedController) {
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
	count := m.pipeline.CountUnfinished(of.name)
	shown.Unfinished, shown.Failing, shown.Terminal = count.Keys, count.Failing, count.Terminal
	for _, failure := range m.pipeline.Failures(of.name, mostFailures) {
		listed := introspectedFailure{Key: failure.NamespacedName.String(), Failures: failure.Failures, Reason: failure.Reason, Terminal: failure.Terminal}
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

func introspectWatch(of *watched) introspectedKind {
	shown := introspectedKind{Kind: of.kind.GroupKind().String(), Use: "watched"}
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
