package faults

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestAStepIsNotJudgedByTheStateBeforeIt has an observer that is late, as a watch may be.
func TestAStepIsNotJudgedByTheStateBeforeIt(t *testing.T) {
	configMaps, others := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, schema.GroupVersionResource{Version: "v1", Resource: "others"}
	object := func(version, uid string) watch.Event {
		made := child("faults-a", uid, "1", "2026-01-01T00:00:00Z", "red")["configmaps/owner"].DeepCopy()
		made.SetResourceVersion(version)
		made.SetUID(types.UID(uid))
		return watch.Event{Type: watch.Modified, Object: made}
	}
	o := &observer{state: State{}, newest: map[resource]string{configMaps: ""}, changed: make(chan struct{})}
	user := newUser("faults-a", nil)
	lacks := func() bool {
		_, missing, _, err := o.lookAfter(user)
		if err != nil {
			t.Fatal(err)
		}
		return missing != nil
	}
	wrote := func(version string) {
		user.wrote[configMaps] = newer(user.wrote[configMaps], version)
	}
	for _, test := range []struct {
		what string
		do   func()
		want bool
	}{
		{"nothing was written", func() {}, false},
		{"a kind that is not observed", func() { user.wrote[others] = "100" }, false},
		{"a creation", func() { wrote("9") }, true},
		{"its event", func() { o.take(configMaps, object("9", "a")) }, false},
		{"a patch", func() { wrote("10") }, true},
		{"an older patch is answered later", func() { wrote("8") }, true},
		{"a later event than that of the patch", func() { o.take(configMaps, object("12", "a")) }, false},
		{"a deletion", func() { user.deleted[deletion{configMaps, "owner"}] = "a" }, true},
		{"an object of the same name", func() { o.take(configMaps, object("14", "b")) }, false},
		{"a deletion of that", func() { user.deleted[deletion{configMaps, "owner"}] = "b" }, true},
		{"it is gone", func() {
			gone := object("15", "b")
			gone.Type = watch.Deleted
			o.take(configMaps, gone)
		}, false},
	} {
		test.do()
		if got := lacks(); got != test.want {
			t.Errorf("%s: the state lacks something: %v, want %v", test.what, got, test.want)
		}
	}
}
