package cache_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/streams"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var pods = schema.GroupKind{Kind: "Pod"}

// byApp is an index with a value for each part of the label "app".
var byApp = cache.Indexer{Name: "app", Values: func(object streams.Object, values []string) []string {
	return append(values, strings.Fields(object.GetLabels()["app"])...)
}}

// newCache returns an empty cache of one kind.
func newCache(t testing.TB) (*cache.Cache, *cache.Store) {
	t.Helper()
	made, err := cache.New(cache.LoopOptions{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return made, made.Add(pods, byApp, cache.ByOwner)
}

// named splits "namespace/name".
func named(key string) types.NamespacedName {
	namespace, name, _ := strings.Cut(key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// object makes an object from "namespace/name", "uid@version" and the values of the label "app".
func object(key, state string, app ...string) *metav1.PartialObjectMetadata {
	uid, version, _ := strings.Cut(state, "@")
	made := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: named(key).Namespace, Name: named(key).Name, UID: types.UID(uid), ResourceVersion: version,
	}}
	if len(app) > 0 {
		made.Labels = map[string]string{"app": strings.Join(app, " ")}
	}
	return made
}

var received = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func event(kind streams.EventType, version string) streams.Event {
	return streams.Event{Type: kind, Source: "test", Key: streams.Key{GroupKind: pods}, ResourceVersion: version, Received: received}
}

func of(kind streams.EventType, object streams.Object) streams.Event {
	made := event(kind, object.GetResourceVersion())
	made.Key, made.Object = streams.KeyOf(pods, object), object
	return made
}

func applied(key, state string, app ...string) streams.Event {
	return of(streams.Applied, object(key, state, app...))
}

// deleted returns a deletion. As with the API server, the version is the one of the deletion
// itself.
func deleted(key, state string) streams.Event { return of(streams.Deleted, object(key, state)) }

func bookmark(version string) streams.Event { return event(streams.Bookmark, version) }

// list returns a complete list at a version. The server had reported head as current before.
func list(head, version string, objects ...*metav1.PartialObjectMetadata) []streams.Event {
	events := []streams.Event{event(streams.ListStart, head)}
	for _, object := range objects {
		events = append(events, of(streams.Listed, object))
	}
	return append(events, event(streams.ListEnd, version))
}

// stateOf returns "uid@version" of an object.
func stateOf(object streams.Object) string {
	if object == nil {
		return "-"
	}
	return fmt.Sprintf("%s@%s", object.GetUID(), object.GetResourceVersion())
}

// formatted returns the texts of changes, such as "Updated a/x u@1 > u@2 by Applied@2".
func formatted(changes []streams.Change) []string {
	var lines []string
	for _, change := range changes {
		line := fmt.Sprintf("%v %s %s > %s by", change.Type, change.Key.NamespacedName, stateOf(change.Old), stateOf(change.New))
		for _, cause := range change.Causes {
			line += fmt.Sprintf(" %v@%s", cause.Type, cause.ResourceVersion)
		}
		lines = append(lines, line)
	}
	return lines
}

// held formats objects, such as "a/x u@1".
func held(objects []streams.Object) []string {
	var lines []string
	for _, object := range objects {
		lines = append(lines, fmt.Sprintf("%s/%s %s", object.GetNamespace(), object.GetName(), stateOf(object)))
	}
	return lines
}

// got returns the state that Get returns for a key, or "-".
func got(store *cache.Store, key string) string {
	object, found := store.Get(named(key))
	if !found {
		return "-"
	}
	return stateOf(object)
}

// anomalies returns the counts above 0.
func anomalies(store *cache.Store) map[string]int64 {
	counts := map[string]int64{}
	store.Anomalies(func(anomaly cache.Anomaly, count int64) {
		if count > 0 {
			counts[anomaly.String()] = count
		}
	})
	return counts
}

// same fails the test unless two lists are equal.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
