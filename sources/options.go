package sources

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// MaxPageSize bounds a page of a list. Above it, streaming the list is cheaper for the API server.
const MaxPageSize = 10_000

// WatchOptions configures [Watch]. The zero value watches all objects of the kind.
type WatchOptions struct {
	// Namespaces lists the namespaces to watch, each with requests of its own. If it is empty, all
	// namespaces are watched. It is ignored for a kind without namespaces.
	Namespaces    []string
	LabelSelector string
	FieldSelector string

	// PageSize, if it is not 0, makes the source request lists in pages of this size, 1 to
	// MaxPageSize. By default, servers that can stream lists (WatchList) do so. Streaming holds the
	// fewest whole objects in memory at a time, and takes nearly twice the CPU here.
	PageSize int

	// First, if it is not empty, is a field selector for objects to emit before the first list. The
	// source requests at most one page of the objects that match both First and the other
	// selectors, and emits them as Applied. At a start among many objects, these few do not wait
	// for the full list. If the server does not support the fields, the source continues without
	// First.
	First string

	// OnFirst, if set, receives the objects of First before they are emitted. It receives none if none
	// matches or the request fails. It is called once for each namespace that is watched.
	OnFirst func(objects []streams.Object)

	// Begin, if set, delays the first list until it is closed. The objects of First do not wait for it.
	Begin <-chan struct{}

	// MaxStaleness, if it is not 0, bounds how long a watch may be unconfirmed by the server, 1 s
	// to 24 h. Before it has passed, the source has asked the server, and has emitted Disconnected
	// if no answer came. DefaultMaxStaleness suits servers that send bookmarks. A server without
	// bookmarks is probed every three quarters of MaxStaleness, and is asked for a list if anything
	// was written since.
	//
	// Consecutive lists wait up to 8 s. Below about 40 s, a watch on a busy server without
	// bookmarks is therefore stale for a part of the time. The same holds for a server with
	// bookmarks below a minute.
	MaxStaleness time.Duration

	// Transform changes an object before it enters the stream, to keep only the parts that are
	// read. The default drops the managed fields, which are half of many objects. Transform must be
	// fast and idempotent. For a kind that is kept as metadata or as a projection, it receives that
	// form.
	Transform func(object streams.Object)

	// OnObject, if set, is called with each object from the API server, before it is converted to the form that is kept. It
	// must neither keep nor change the object. It may keep body, which is the JSON of the object as a watch has brought it.
	// There is no body of an object in a list, and mostly none of one in protobuf. It is called from the goroutines of the watch.
	OnObject func(object streams.Object, body []byte)

	// Selecting, if set, restricts the watch to a selection of the objects, which may change. The source
	// emits nothing before the first selection. It may emit objects outside of the selection: the cache
	// drops them.
	Selecting *Selecting

	// Status, if set, reports how the watch is doing. Give each Status to one watch only.
	Status *Status
}

// Validate returns an error that names the first option out of its range.
func (o WatchOptions) Validate() error {
	named := map[string]bool{}
	for i, namespace := range o.Namespaces {
		switch wrong := validation.ValidateNamespaceName(namespace, false); {
		case namespace == "":
			return fmt.Errorf("watch: Namespaces[%d] is empty; give a name, or leave Namespaces empty for all", i)
		case len(wrong) > 0:
			return fmt.Errorf("watch: Namespaces[%d] is %q, which is not a namespace name: %s", i, namespace, strings.Join(wrong, "; "))
		case named[namespace]:
			return fmt.Errorf("watch: Namespaces names %q twice; name it once", namespace)
		}
		named[namespace] = true
	}
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		return fmt.Errorf("watch: LabelSelector is %q, which is not a selector: %w", o.LabelSelector, err)
	}
	if _, err := fields.ParseSelector(o.FieldSelector); err != nil {
		return fmt.Errorf("watch: FieldSelector is %q, which is not a field selector: %w", o.FieldSelector, err)
	}
	if _, err := fields.ParseSelector(o.First); err != nil {
		return fmt.Errorf("watch: First is %q, which is not a field selector: %w", o.First, err)
	}
	if o.MaxStaleness != 0 && (o.MaxStaleness < time.Second || o.MaxStaleness > 24*time.Hour) {
		return fmt.Errorf("watch: MaxStaleness is %v; allowed is 1s to 24h, or 0 for no bound", o.MaxStaleness)
	}
	if o.PageSize < 0 || o.PageSize > MaxPageSize {
		return fmt.Errorf("watch: PageSize is %d; allowed is 1 to %d, or 0 to stream lists", o.PageSize, MaxPageSize)
	}
	return nil
}

func (o *WatchOptions) keep() func(streams.Object) {
	if o.Transform == nil {
		return DropManagedFields
	}
	return o.Transform
}

// DropManagedFields removes the managed fields. It is the default of [WatchOptions].Transform.
func DropManagedFields(object streams.Object) { object.SetManagedFields(nil) }
