package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// newHistory creates the history of a manager, or nil if no server would show it.
func newHistory(m *Manager) (*history.History, error) {
	if m.options.MetricsAddress == "" || m.options.History < 0 {
		return nil, nil
	}
	made, err := history.New(history.Options{Bytes: m.options.History, SizeOf: m.sizeOf, IsPartial: m.isPartial, Found: m.onFinding})
	if err != nil {
		return nil, err
	}
	if err := m.options.Registry.Register(patternMetrics{m, made}); err != nil {
		return nil, err
	}
	return made, m.options.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "bellerophon_history_bytes", Help: "Memory of the history of attempts, estimated.",
	}, func() float64 { return float64(made.Bytes()) }))
}

// sizeOf estimates the bytes of an object of a kind in the cache.
func (m *Manager) sizeOf(kind schema.GroupKind) int {
	if store := m.cache.Store(kind); store != nil {
		return store.AverageBytes()
	}
	return 0
}

// isPartial reports whether the cache keeps less than whole objects of a kind.
func (m *Manager) isPartial(kind schema.GroupKind) bool {
	return slices.ContainsFunc(m.present.Load().watches, func(watched *watched) bool {
		return watched.kind.GroupKind() == kind && watched.kind.Form() != sources.Whole
	})
}

// why answers what the manager remembers of an object. The query has the object, as RESOURCE/NAME, and its
// namespace, or the ID of an attempt for it. With follow=true further answers follow: when an attempt has ended, and when the cache shows
// one of its writes. At least once in followAlive it sends a line feed, so that a client sees that the manager is alive.
func (m *Manager) why(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	controllers, object, refused := m.asked(query)
	if refused != nil {
		http.Error(w, refused.text, refused.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder, control, follows := json.NewEncoder(w), http.NewResponseController(w), query.Get("follow") == "true"
	var sent time.Time
	for shown := ""; ; {
		explained, last, updated := m.explain(controllers, object)
		isNew := last != shown || sent.IsZero()
		if isNew || time.Since(sent) >= followAlive {
			if follows {
				_ = control.SetWriteDeadline(time.Now().Add(followPatience)) // A client that does not read may not keep the connection.
			}
			var err error
			if isNew {
				err = encoder.Encode(explained)
			} else {
				_, err = w.Write([]byte("\n"))
			}
			if err != nil || !follows || control.Flush() != nil {
				return // The client has gone, or has its answer.
			}
			sent = time.Now()
		}
		shown = last
		select {
		case <-updated:
		case <-time.After(time.Until(sent.Add(followAlive))):
		case <-request.Context().Done():
			return
		case <-m.context().Done():
			return
		}
	}
}

// noAnswer is the response to a query that cannot be answered.
type noAnswer struct {
	code int
	text string
}

// asked returns the object of a query of why, and the controllers that reconcile it.
func (m *Manager) asked(query url.Values) ([]*member, types.NamespacedName, *noAnswer) {
	if id := query.Get("attempt"); id != "" {
		controller, object, found := m.history.Find(id)
		by := m.present.Load().members[controller]
		if !found || by == nil || by.reconciled == nil {
			return nil, object, &noAnswer{http.StatusNotFound, "attempt is " + id + ", which this manager does not remember; ask for an object, or another replica"}
		}
		return []*member{by}, object, nil
	}
	resource, name, isNamed := strings.Cut(query.Get("object"), "/")
	if !isNamed || resource == "" || name == "" {
		return nil, types.NamespacedName{}, &noAnswer{http.StatusBadRequest, "object is " + query.Get("object") + "; give RESOURCE/NAME, such as deployments.apps/web, or attempt with an ID"}
	}
	controllers := m.reconcilersOf(resource)
	if len(controllers) == 0 {
		return nil, types.NamespacedName{}, &noAnswer{http.StatusNotFound, fmt.Sprintf("no controller reconciles %s; there are controllers of %s", resource, strings.Join(m.reconciledKinds(), ", "))}
	}
	return controllers, types.NamespacedName{Namespace: query.Get("namespace"), Name: name}, nil
}

// reconcilersOf returns the controllers of a kind that a user names: by its plural or its name, with its group or
// without it.
func (m *Manager) reconcilersOf(resource string) (found []*member) {
	members := m.present.Load().members
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if of := members[name].reconciled; of != nil && of.isNamed(resource) {
			found = append(found, members[name])
		}
	}
	return found
}

// reconciledKinds returns what reconcilersOf finds.
func (m *Manager) reconciledKinds() (names []string) {
	for _, member := range m.present.Load().members {
		if member.reconciled != nil {
			names = append(names, schema.GroupResource{Group: member.reconciled.kind.Group, Resource: member.reconciled.kind.Resource()}.String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// explain returns the answer for an object. last changes with each attempt that ends, and with each of its writes that
// the cache shows. updated is closed when it may change.
func (m *Manager) explain(controllers []*member, object types.NamespacedName) (made history.Answer, last string, updated <-chan struct{}) {
	made = history.Answer{Time: time.Now().UTC()}
	for _, of := range controllers {
		named := object
		if !of.reconciled.kind.Namespaced() {
			named.Namespace = ""
		}
		one := history.Controller{Name: of.name, Kind: of.reconciled.kind.GroupKind().String(), Level: m.cache.LevelOf(kindsOf(of.watches)...)}
		if next := nextLevelOf(one.Level, func(next cache.Level) []string { return m.pendingOf(kindsOf(of.watches), next) }); next != nil {
			one.Missing = next.Missing
		}
		if store := of.reconciled.store(); store != nil {
			_, one.Cached = store.Get(named)
		}
		one.RunningSince = of.attempts.since(named)
		var ended <-chan struct{}
		if one.Attempts, ended = m.history.Of(of.name, named); updated == nil {
			updated = ended
		}
		for _, attempt := range one.Attempts {
			last += attempt.ID
			for _, write := range attempt.Writes {
				last += fmt.Sprint(write.Seen != nil)
			}
		}
		made.Controllers = append(made.Controllers, one)
	}
	return made, last, updated
}
