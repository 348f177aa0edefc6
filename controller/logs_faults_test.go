package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	"github.com/bellerophon-io/bellerophon/streams"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// logsPage is what docs/logs.md says about records.
type logsPage struct {
	keys    map[string][]string // by level and message
	further [][]string          // the keys that other records have in addition
}

var inBackquotes = regexp.MustCompile("`([^`]+)`")

func readLogsPage(t *testing.T) logsPage {
	t.Helper()
	content, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	page := logsPage{keys: map[string][]string{}}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		names := func(cell int) (found []string) {
			for _, match := range inBackquotes.FindAllStringSubmatch(cells[cell], -1) {
				found = append(found, match[1])
			}
			return found
		}
		switch {
		case len(cells) == 4 && strings.HasPrefix(line, "| `"):
			page.keys[strings.ToUpper(cells[1])+" "+names(0)[0]] = names(2)
		case len(cells) == 2 && strings.Contains(line, "`"):
			page.further = append(page.further, names(1))
		}
	}
	if len(page.keys) < 40 || len(page.further) < 4 {
		t.Fatalf("the page has %d messages, and %d rows with further keys", len(page.keys), len(page.further))
	}
	return page
}

// check compares a record with the page.
func (p logsPage) check(record logged) error {
	allowed, isKnown := p.keys[record.level.String()+" "+record.message]
	if !isKnown {
		return fmt.Errorf("the page has no record of level %v that says %q", record.level, record.message)
	}
	var keys, more []string
	for _, attribute := range record.attributes {
		if slices.Contains(keys, attribute.Key) {
			return fmt.Errorf("%q has the key %s twice", record.message, attribute.Key)
		}
		keys = append(keys, attribute.Key)
		if !slices.Contains(allowed, attribute.Key) {
			more = append(more, attribute.Key)
		}
	}
	for _, key := range allowed {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("%q lacks the key %s: it has %v", record.message, key, keys)
		}
	}
	isRow := func(row []string) bool {
		return !slices.ContainsFunc(more, func(key string) bool { return !slices.Contains(row, key) })
	}
	if len(more) > 0 && !slices.ContainsFunc(p.further, isRow) {
		return fmt.Errorf("no row of the page has the keys %v of %q", more, record.message)
	}
	return nil
}

func TestAllRecordsOfAnOperatorWithFaultsAreOnThePage(t *testing.T) {
	page, log, isRight := readLogsPage(t), newLogRecords(), map[string]bool{}
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) { operateWithFaults(t, seed, log) })
	}
	for _, record := range log.everything() {
		right, isSeen := isRight[record.message]
		if isSeen && !right {
			continue // One report of a message is enough.
		}
		err := page.check(record)
		if err != nil {
			t.Error(err)
		}
		isRight[record.message] = err == nil
	}
	for _, message := range []string{
		"reconciled", "reconcile failed", "reconcile panicked", "records of a message were left out", "source or map function failed", "the object is paused",
		"this replica leads", "this replica has lost the Lease, ends its reconciles and stands by", "this replica has released the Lease", "the Lease cannot be acquired",
		"the Lease cannot be renewed", "the controller waits until the API server serves its kinds", "the API server serves the kinds of the controller, which starts",
		"the API server no longer serves a kind of the controller, which stops",
	} {
		if _, isSeen := isRight[message]; !isSeen {
			t.Errorf("no record says %q", message)
		}
	}
}

// operateWithFaults runs an operator on an API server that fails at random and then for a while.
func operateWithFaults(t *testing.T, seed uint64, log logRecords) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme, Seed: seed, Rates: sourcestest.DefaultRates()})
	must(err)
	put := func(object streams.Object, name string) streams.Object {
		object.SetNamespace("a")
		object.SetName(name)
		return object
	}
	for i := range 2 * maxRecords {
		must(server.Create(put(&corev1.ConfigMap{}, fmt.Sprint("map-", i))))
	}
	must(server.Create(put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"pause": "true"}}}, "paused")))
	must(server.Uninstall(&corev1.Secret{}))
	manager, err := NewManager(server.Config(), scheme.Scheme, Options{
		Logger: slog.New(log), Backoff: operators.Backoff{First: 200 * time.Millisecond}, MaxStaleness: time.Minute, LeaderElection: LeaderElection{Lease: "a/operator", Identity: "me"},
	})
	must(err)
	must(manager.Add("maps", func(_ context.Context, request operators.Request) (time.Duration, error) {
		switch request.Name[len(request.Name)-1] {
		case '0':
			panic("a panic")
		case '1':
			return 0, operators.Terminal(errors.New("in vain"))
		}
		if request.Name[len(request.Name)-1] < '8' {
			return 0, errors.New("again")
		}
		return 0, nil
	}, For(&corev1.ConfigMap{}), PausedBy("pause"), Watches(&corev1.Service{}, func(streams.Object) []types.NamespacedName { panic("no map") })))
	must(manager.Add("secrets", func(context.Context, operators.Request) (time.Duration, error) { return 0, nil }, For(&corev1.Secret{}), IfServed()))
	group := lifecycle.New(t.Context())
	group.Go("manager", manager.Run)
	step := func() { <-time.After(30 * time.Second) }
	step()
	must(server.Install(&corev1.Secret{}))
	must(server.Create(put(&corev1.Service{}, "s")))
	step()
	must(server.Uninstall(&corev1.Secret{}))
	for i := range maxRecords {
		must(server.Delete(put(&corev1.ConfigMap{}, fmt.Sprint("map-", i))))
		must(server.Create(put(&corev1.ConfigMap{}, fmt.Sprint("map-", i))))
	}
	step()
	must(server.Inject(sourcestest.Fault{Action: sourcestest.Refuse, Resource: "leases", Times: sourcestest.Always}))
	step()
	server.Heal()
	step()
	group.Stop()
	must(group.Wait())
}
